#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "harness/hosts/attached_host.h"
#include "harness/hosts/named_host.h"
#include "harness/scenario/host_list.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// The hosts of one run. What concerns a node, a device or a core goes to its host, and what concerns the run
/// to all of them at once. Nodes and groups are counted over the run, whichever host has them. Calls may be
/// made from several threads; they block. An Error of one of several hosts begins with its name, as its
/// client has it.
class RunHosts {
 public:
  /// The one host whose nodes say no name.
  explicit RunHosts(vmctl::Host& only);
  /// `hosts` in the order of their names; they outlive this.
  explicit RunHosts(const std::vector<NamedHost>& hosts);

  /// Adds machines that exist already, which make one node each and are asked for nothing else; they outlive
  /// this. Before the run begins.
  void attach(const std::vector<AttachedMachine>& machines,
              const std::vector<std::unique_ptr<AttachedHost>>& hosts);

  std::size_t size() const { return hosts_.size(); }
  /// Throws Error(host_unable) where there are several.
  vmctl::Host& only() const;

  // --- the run

  /// Looks at attached machines, and tells each host the others' ends of the networks between them. Throws
  /// Error(host_unable) for machines on which nothing can run, and for one that is there twice.
  void begin(const vmctl::RunSpec& run);
  /// In the order of the hosts, all or none.
  void acquire(const ByHost<std::vector<std::string>>& resources);
  /// A host that is gone ends by itself, and of several it is only said.
  void end(bool stored);
  /// With several, what each had of the network between them when the run began is among its facts.
  ByHost<std::map<std::string, std::string>> fingerprints();
  /// Throws Error(host_unable) where a host or an attached machine that needs it lacks the file, or has
  /// another than the first; the SHA-256. `of_hosts`: hosts need it, and not attached machines alone.
  std::string take_payload(const std::string& path, bool of_hosts);
  /// Throws Error(host_unable) where hosts run VMs in different ways.
  vmctl::ImageFacts make_image(const vmctl::ImageSpec& spec);
  /// From any thread, as vmctl::Host::cancel().
  void cancel();

  void keep_services_away(const ByHost<std::vector<vmctl::DeviceGrant>>& grants);
  std::size_t lend(const ByHost<std::vector<vmctl::DeviceGrant>>& grants, const vmctl::CardSettings& cards);
  void set(const ByHost<std::vector<vmctl::DeviceGrant>>& grants, const vmctl::DeviceSettings& wanted);
  std::vector<std::string> give_back();
  /// A host that is gone does it by itself, and of several it is only said.
  std::vector<std::string> end_lending();

  void watch_devices(const ByHost<std::vector<std::string>>& addresses);
  ByHost<vmctl::DeviceEvidence> watched();

  // --- nodes

  vmctl::NodeGroup plan_nodes(const vmctl::NodeGroupSpec& spec);
  void make_networks(vmctl::NodeGroupId group);
  /// All hosts at once, each one node after the other; Error(interrupted) before the next one after cancel().
  /// When they started is said on this process's clock, as is all that counters() and watched() stamp.
  std::vector<vmctl::NodeStream> start(const std::vector<vmctl::NodeId>& nodes);
  vmctl::NodeCounters counters(vmctl::NodeId node);
  /// As its host has last told, at once; see vmctl::HostCounters.
  std::chrono::nanoseconds waiting_time(vmctl::NodeId node) const;
  vmctl::LastWords last_words(vmctl::NodeId node);
  void kill(vmctl::NodeId node);
  void await_end(vmctl::NodeId node);
  vmctl::GuestTopology check_topology(vmctl::NodeId node, const std::vector<vmctl::PciFunction>& guest,
                                      const std::string& peers);
  std::vector<int> numa_nodes_of(const std::string& host, const std::vector<int>& cores);
  /// A host that is gone removes its part by itself, which is said among what is left.
  vmctl::Removal remove(vmctl::NodeGroupId group);

 private:
  struct Member {
    std::string name;
    vmctl::HostNetwork network = {};
    vmctl::Host* host = nullptr;
    vmctl::RunSpec run = {};               ///< as it began
    vmctl::HostNetworkFacts between = {};  ///< its network to the others, then
  };
  /// A node, or what a group has on one host, as that host counts it.
  struct Place {
    Member* member = nullptr;
    std::int64_t id = 0;
  };

  template <typename Work>
  auto of_all(Work&& work) const;
  template <typename Work>
  auto of_group(vmctl::NodeGroupId group, Work&& work) const;
  template <auto method, typename... Argument>
  auto of_node(vmctl::NodeId node, const Argument&... argument) const;
  Member& member(const std::string& name);
  Place place_of(vmctl::NodeId node) const;

  void begin_attached(const vmctl::RunSpec& run);
  template <typename Work>
  auto of_attached(Work&& work) const;

  std::vector<Member> hosts_;
  std::vector<Member> attached_;         ///< hosts of attached machines
  std::vector<AttachedHost*> machines_;  ///< the same
  std::atomic<bool> is_cancelled_ = false;
  mutable std::mutex mutex_;
  std::vector<Place> nodes_;                ///< by NodeId, from 1
  std::vector<std::vector<Place>> groups_;  ///< by NodeGroupId, from 1
};

}  // namespace virtrain::harness
