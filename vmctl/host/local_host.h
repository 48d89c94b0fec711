#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "vmctl/api/host.h"
#include "vmctl/host/device_watch.h"
#include "vmctl/host/made_nodes.h"
#include "vmctl/machine/host_network.h"

namespace virtrain::vmctl {

/// This host, or the recorded one below `root`, in this process.
class LocalHost final : public Host {
 public:
  explicit LocalHost(std::filesystem::path root);
  ~LocalHost() override;

  Inventory inventory(bool with_users) override;
  std::map<std::string, std::string> fingerprint() override;
  DeviceListing devices() override;
  std::vector<int> numa_nodes_of(const std::vector<int>& cores) override;
  HostAddresses addresses() override { return read_addresses(); }
  HostNetworkFacts look_at_network(const HostNetwork& network) override;
  std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node, NodeId number,
                          bool emulated) override;
  std::string nccl_topology_of(const std::string& domain_xml) override;
  std::string domain_xml_of(const std::string& domain) override;
  std::filesystem::path log_root() override;
  void record(const std::filesystem::path& folder) override;

  std::vector<Finding> examine(HostMode mode) override;
  std::vector<CheckDescription> checks() override;
  std::vector<Finding> examine_devices(const std::optional<std::vector<DeviceDemand>>& demands) override;
  Privileges privileges() override;
  std::string lacks_user_namespaces() override;
  std::string lacks_system_libvirt() override;
  std::string closed_to_qemu() override;
  std::vector<std::string> lacks_limits(NodeKind kind, const NodeLimits& limits) override;
  void check_guest(const GuestSpec& guest) override;
  CudaHost look_at_cuda(const std::string& trainer) override;
  bool has_image(const ImageSpec& spec, const std::vector<std::string>& programs) override;

  std::filesystem::path begin(const RunSpec& spec) override;
  void acquire(const std::vector<std::string>& resources) override;
  void end(bool stored) override;
  std::string take_payload(const std::string& path) override;
  ImageFacts make_image(const ImageSpec& spec) override;
  void cancel() override { cancelled_ = true; }

  void keep_services_away(const std::vector<DeviceGrant>& grants) override;
  std::size_t lend(const std::vector<DeviceGrant>& grants, const CardSettings& cards) override;
  void set(const std::vector<DeviceGrant>& grants, const DeviceSettings& wanted) override;
  std::vector<std::string> give_back() override;
  std::vector<std::string> end_lending() override;

  NodeGroup plan_nodes(const NodeGroupSpec& spec) override;
  void make_networks(NodeGroupId group) override { this->group(group)->make_networks(); }
  NodeStream start(NodeId node) override { return group_of(node)->start(node); }
  NodeCounters counters(NodeId node) override {
    const std::shared_lock reading(run_mutex_);
    return group_of(node)->counters(node);
  }
  LastWords last_words(NodeId node) override { return group_of(node)->last_words(node); }
  void kill(NodeId node) override { group_of(node)->kill(node); }
  void await_end(NodeId node) override { group_of(node)->await_end(node); }
  GuestTopology check_topology(NodeId node, const std::vector<PciFunction>& guest,
                               const std::string& peers) override;
  Removal remove(NodeGroupId group) override { return this->group(group)->remove(); }

  HostCounters look() override;
  void watch_devices(const std::vector<std::string>& addresses) override;
  DeviceEvidence watched() override;

  std::vector<std::filesystem::path> plant(const Canary& canary) override;
  void remove_planted() override;
  std::uint64_t plant_in_memory(const Canary& canary) override;
  SearchReport search_leftovers(const std::vector<Canary>& canaries, const Canary& control) override;
  ModeReport check_modes() override;

  Leftovers leftovers(const std::string& libvirt, const std::string& experiment) override;
  Cleaned clean() override;
  void forget(const std::vector<std::string>& experiments) override;
  bool lift_quarantine(const std::string& address) override;

 private:
  struct Run;
  struct Cleaning;

  // These throw Error(protocol) for what the coordinator has not made.
  Run& run() const;
  Cleaning& cleaning() const;
  std::shared_ptr<MadeNodes> group(NodeGroupId id) const;
  std::shared_ptr<MadeNodes> group_of(NodeId node) const;
  std::vector<std::string> undo_all();
  Inventory read_inventory(bool with_users) const;
  std::shared_ptr<const Inventory> known_inventory();

  const std::filesystem::path root_;
  std::optional<CpuTraits> cpu_traits_;
  std::mutex inventory_mutex_;
  std::shared_ptr<const Inventory> inventory_;  ///< as it was last read
  std::atomic<bool> cancelled_ = false;
  std::unique_ptr<Run> run_;
  /// Shared by counters(), which come at any time; whoever ends the run or replaces its image has it alone.
  std::shared_mutex run_mutex_;
  mutable std::mutex groups_mutex_;  ///< counters are read while others are made and removed
  std::map<NodeGroupId, std::shared_ptr<MadeNodes>> groups_;
  std::mutex watch_mutex_;
  std::optional<DeviceWatch> watch_;
  std::unique_ptr<Cleaning> cleaning_;
};

}  // namespace virtrain::vmctl
