#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/support/fake_node.h"
#include "vmctl/api/host.h"

namespace virtrain::test {

/// What goes wrong in one call of a FakeHost.
struct Fault {
  std::optional<Error> error = {};       ///< thrown, after `delay`
  std::chrono::milliseconds delay{0};    ///< the call is slow
  std::function<void()> meanwhile = {};  ///< done first, without the host's own lock
  bool until_cancelled = false;          ///< the call returns only with Error(interrupted), after cancel()
};

/// A host without side effects on this machine: no root, no libvirt, no devices. Its nodes are processes of
/// the real virtrain-agent; what an agent says of its node is replaced by what was planned. Faults are
/// planted before the run, in each call of the host and each kind of message of an agent.
class FakeHost final : public vmctl::Host {
 public:
  /// `agent` and `programs`, by name, are what its nodes run; logs are written to `folder`.
  FakeHost(std::filesystem::path folder, std::filesystem::path agent,
           std::map<std::string, std::filesystem::path> programs);
  ~FakeHost() override;

  /// In the `nth` call of the method of that name; 0: in each one. In remove() an error leaves the group.
  void plant_fault(const std::string& method, Fault fault, int nth = 1);
  void plant_in_stream(vmctl::NodeId node, const std::string& type, StreamFault fault, int nth = 1);

  /// The node has waited that long for a core, as look() sees it.
  void let_wait(vmctl::NodeId node, std::chrono::nanoseconds time);

  /// As it began last.
  const vmctl::RunSpec& run() const { return run_; }
  /// Says this of itself in place of what all of them say.
  void set_fact(const std::string& name, const std::string& value) { own_facts_[name] = value; }

  /// Has this at the paths of payloads in place of what lies there: its SHA-256.
  void set_payload(const std::string& digest) { own_payload_ = digest; }

  /// How make_image() finds that its VMs run.
  void set_virtualization(Virtualization kind) { virtualization_ = kind; }

  /// How often a method has been called.
  int calls(const std::string& method) const;
  /// What was made and has not been removed or given back: "node 1", "network 1", "device 0000:65:00.0".
  std::set<std::string> left() const;
  /// What end() was told; absent: it has not been called since the last begin().
  std::optional<bool> ended() const;

  /// Four cores, 64 GiB, and one device that VMs can get.
  static vmctl::Inventory small_inventory();

  vmctl::Inventory inventory(bool with_users) override;
  std::map<std::string, std::string> fingerprint() override;
  vmctl::DeviceListing devices() override;
  std::vector<int> numa_nodes_of(const std::vector<int>& cores) override;
  vmctl::HostAddresses addresses() override;
  vmctl::HostNetworkFacts look_at_network(const vmctl::HostNetwork& network) override;
  std::string planned_xml(const vmctl::NodeGroupSpec&, std::size_t, std::size_t, vmctl::NodeId,
                          bool) override;
  std::string nccl_topology_of(const std::string& domain_xml) override;
  std::string domain_xml_of(const std::string& domain) override;
  std::filesystem::path log_root() override;
  void record(const std::filesystem::path& folder) override;

  std::vector<Finding> examine(vmctl::HostMode) override;
  std::vector<CheckDescription> checks() override;
  std::vector<Finding> examine_devices(const std::optional<std::vector<vmctl::DeviceDemand>>&) override;
  vmctl::Privileges privileges() override;
  std::string lacks_user_namespaces() override;
  std::string lacks_system_libvirt() override;
  std::string closed_to_qemu() override;
  std::vector<std::string> lacks_limits(vmctl::NodeKind, const vmctl::NodeLimits&) override;
  void check_guest(const vmctl::GuestSpec&) override;
  vmctl::CudaHost look_at_cuda(const std::string& trainer) override;
  bool has_image(const vmctl::ImageSpec& spec, const std::vector<std::string>& programs) override;

  std::filesystem::path begin(const vmctl::RunSpec& run) override;
  void acquire(const std::vector<std::string>& resources) override;
  void end(bool stored) override;
  std::string take_payload(const std::string& path) override;
  vmctl::ImageFacts make_image(const vmctl::ImageSpec& spec) override;
  void cancel() override;

  void keep_services_away(const std::vector<vmctl::DeviceGrant>& grants) override;
  std::size_t lend(const std::vector<vmctl::DeviceGrant>& grants, const vmctl::CardSettings& cards) override;
  void set(const std::vector<vmctl::DeviceGrant>& grants, const vmctl::DeviceSettings& wanted) override;
  std::vector<std::string> give_back() override;
  std::vector<std::string> end_lending() override;

  vmctl::NodeGroup plan_nodes(const vmctl::NodeGroupSpec& spec) override;
  void make_networks(vmctl::NodeGroupId group) override;
  vmctl::NodeStream start(vmctl::NodeId node) override;
  vmctl::NodeCounters counters(vmctl::NodeId node) override;
  vmctl::LastWords last_words(vmctl::NodeId node) override;
  void kill(vmctl::NodeId node) override;
  void await_end(vmctl::NodeId node) override;
  vmctl::GuestTopology check_topology(vmctl::NodeId node, const std::vector<vmctl::PciFunction>& guest,
                                      const std::string& peers) override;
  vmctl::Removal remove(vmctl::NodeGroupId group) override;

  void watch_devices(const std::vector<std::string>& addresses) override;
  vmctl::DeviceEvidence watched() override;
  vmctl::HostCounters look() override;

  std::vector<std::filesystem::path> plant(const Canary& canary) override;
  void remove_planted() override;
  std::uint64_t plant_in_memory(const Canary& canary) override;
  SearchReport search_leftovers(const std::vector<Canary>&, const Canary&) override;
  vmctl::ModeReport check_modes() override;

  vmctl::Leftovers leftovers(const std::string& libvirt, const std::string& experiment) override;
  vmctl::Cleaned clean() override;
  void forget(const std::vector<std::string>& experiments) override;
  bool lift_quarantine(const std::string& address) override;

 private:
  /// Counts the call and does what is planted in it.
  void enter(const std::string& method);
  void note(const std::string& made);
  void enter_by_stand_in(vmctl::NodeFacts& facts);
  void strike_off(const std::string& made);

  const std::filesystem::path folder_, agent_;
  const std::map<std::string, std::filesystem::path> programs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  std::map<std::string, int> calls_;
  std::map<std::pair<std::string, int>, Fault> faults_;
  std::multimap<vmctl::NodeId, StreamFaultAt> stream_faults_;
  std::set<std::string> made_;
  std::map<vmctl::NodeId, std::chrono::nanoseconds> waiting_;
  std::optional<bool> ended_;
  vmctl::RunSpec run_;
  std::string own_payload_;
  std::set<std::string> payloads_;  ///< that the run has taken
  std::map<std::string, std::string> own_facts_{
      {"hostname", "fake"}, {"boot_id", "00000000-0000-4000-8000-00000000b001"}, {"kernel", "6.1.0"}};
  Virtualization virtualization_ = Virtualization::kvm;
  vmctl::NodeId next_node_ = 1;
  std::map<vmctl::NodeGroupId, std::vector<vmctl::NodeFacts>> groups_;
  std::map<vmctl::NodeId, vmctl::NodeFacts> facts_;
  std::map<vmctl::NodeId, std::string> hostnames_;
  std::map<vmctl::NodeId, std::unique_ptr<FakeNode>> nodes_;
};

}  // namespace virtrain::test
