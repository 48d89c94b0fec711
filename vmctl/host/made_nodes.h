#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vmctl/api/node.h"
#include "vmctl/host/run_state.h"
#include "vmctl/hypervisor/domain/domain_xml.h"
#include "vmctl/process/signs_of_life.h"
#include "vmctl/slice/slice.h"

namespace virtrain::vmctl {

/// Names of one experiment's objects on the host, as an outside observer sees them.
struct HostNames {
  std::string experiment;  ///< "20261120t083012-7f3a2b"
  std::string tag;         ///< its last six characters, for device names of at most 15

  std::string domain(NodeId number) const;
  std::string network(std::size_t tenant) const;
  std::string bridge(std::size_t tenant) const;
  std::string tap(NodeId number) const;
  std::string slice(NodeId number) const;  ///< its namespace and cgroup
  std::string slice_nic(NodeId number) const;
  /// The tunnels to other hosts of these two bridges.
  std::string vxlan(std::size_t tenant) const;
  std::string slice_vxlan(std::size_t tenant) const;
  /// Not bridge(): VMs that wait for their next trial (reuse: case) keep theirs while slices have their own.
  std::string slice_bridge(std::size_t tenant) const;
};

/// Facts of one VM beyond its spec: its number in the run, and files and facts of the host.
struct VmFacts {
  NodeId number = 1;
  std::string uuid;  ///< empty: libvirt chooses
  std::string kernel, initrd, root_image;
  std::string console_log;
  Virtualization virtualization = Virtualization::tcg;
  std::optional<BootDisk> boot_disk;  ///< of a guest with an image of its own
  std::optional<ScratchDisk> scratch;
  std::string payload;  ///< this host's copy of it; empty: none
  CpuTraits cpu_traits = {};
  bool in_session = false;                        ///< see DomainSpec
  std::optional<NicKind> nic = NicKind::network;  ///< nothing: without a network
  int multicast_port = 0;
};

/// Pure: the VM that is made of one node.
DomainSpec domain_spec(const NodeGroupSpec& group, std::size_t tenant, std::size_t node,
                       const HostNames& names, const VmFacts& facts);

/// Pure: its XML as far as it is known before it runs. EXPERIMENT, TAG and IMAGE stand in it for what is not.
std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node, NodeId number,
                        bool emulated, const CpuTraits& cpu_traits);

/// The nodes of one group, networks included: made, read, removed. Each side effect is journalled before it
/// is tried, and remove() undoes whatever was, however far making them came. Calls come one after the other,
/// but for add_waiting_times() and a VM's counters(), which use nothing that others change.
class MadeNodes {
 public:
  MadeNodes(RunState& run, NodeGroupSpec spec);

  /// The number of the first of its nodes, which no other group has.
  NodeGroupId id() const { return id_; }
  std::vector<NodeFacts> facts() const;
  void make_networks();
  NodeStream start(NodeId node);
  NodeCounters counters(NodeId node);
  /// Adds those of nodes that have started and are not being removed.
  void add_waiting_times(HostCounters& counters);
  LastWords last_words(NodeId node) const;
  /// kill -9 of a VM's QEMU; returns when it is gone.
  void kill(NodeId node) const;
  /// Returns when the QEMU of a VM that ends by itself is gone; Error(timeout).
  void await_end(NodeId node, std::chrono::milliseconds deadline = std::chrono::minutes(3)) const;
  GuestTopology check_topology(NodeId node, const std::vector<PciFunction>& guest, const std::string& peers);
  /// Never throws.
  Removal remove();

 private:
  /// A tenant's network.
  struct Network {
    std::string name;    ///< libvirt's, or the bridge's own; empty: there is nothing to make
    std::string bridge;  ///< into which nodes are plugged: the tenant's own, or one of the host's
    bool of_libvirt = false;
    int multicast_port = 0;     ///< where VMs are each other's network
    std::string vxlan = {};     ///< the tunnel to the tenant's nodes on other hosts; empty: none
    bool of_functions = false;  ///< each node has a virtual function of the host's NIC

    bool connects() const { return !bridge.empty() || multicast_port != 0 || of_functions; }
  };
  struct Node {
    NodeFacts facts;
    const NodeSpec* spec = nullptr;
    std::string nic;                     ///< host side of its network: tap or veth; empty: none
    std::optional<ScratchDisk> scratch;  ///< once it is made
    std::unique_ptr<Slice> slice;
    std::optional<pid_t> process;  ///< QEMU, or the slice's agent
  };

  bool is_vm() const { return spec_.kind == NodeKind::vm; }
  /// Those of the tenant's nodes that this host makes, by their place among all.
  std::vector<std::size_t> own_nodes(std::size_t tenant) const;
  /// Reads what this host gives for the network between hosts, and sees that nodes can have it.
  void look_at_host_network();
  /// Throws Error(protocol) where the run has not taken them.
  void look_at_payloads() const;
  /// This host's copy of its payload; empty: it has none.
  std::string payload_of(const Node& node) const;
  Network plan_network(std::size_t tenant) const;
  /// How the node hangs in its tenant's network.
  void look_at_place_in_network(NodeFacts& facts) const;
  Node plan_node(std::size_t tenant, std::size_t placed);
  const Node& at(NodeId node) const;
  Node& at(NodeId node);
  /// Error(protocol) where there is none.
  VmHost& vm_host() const;
  std::optional<NicKind> vm_nic(const Node& node) const;
  std::optional<BootDisk> boot_disk_of(const Node& node) const;
  DomainSpec domain_of(const Node& node) const;
  NodeLimits limits_of(const Node& node) const;
  SliceSpec slice_of(const Node& node) const;
  std::int64_t journal(EffectKind kind, const std::string& name);
  void make_boot_disk(const Node& node);
  void make_scratch_disk(Node& node);
  /// Makes the folder of a slice that has the host's /tmp; the other nodes make theirs themselves.
  void make_folders(const Node& node);
  /// Limits what these processes of the node, and all that they start, take of caches and memory bandwidth.
  void limit_by_resctrl(const Node& node, std::initializer_list<std::optional<pid_t>> processes);
  NodeStream start_vm(Node& node);
  NodeStream start_slice(Node& node);
  void remove_node(Node& node, Removal& removal);
  void remove_domain(const std::string& name, Removal& removal);
  /// Throws Error(host_unable) where another group's node has the address of one of these, where tenants
  /// share one Ethernet.
  void take_shared_addresses();
  /// Lets the NIC enforce the node's address on the virtual function that is its network.
  void use_network_function(const Node& node);
  void make_vxlan(const Network& network, std::size_t tenant);
  void remove_network(const Network& network);
  /// Notes that an effect is gone. Where the journal refuses (its disk is full) the removal goes on all the
  /// same.
  void strike_off(const std::string& name, std::int64_t journal_id, Removal& removal);

  RunState& run_;
  NodeGroupSpec spec_;  ///< complete once the constructor is done
  HostNames names_;
  const NodeGroupId id_;
  HostNetworkFacts host_network_;
  std::vector<Network> networks_;  ///< by tenant
  std::vector<Node> nodes_;
  std::mutex waiting_mutex_;
  std::map<NodeId, WaitingTime> waiting_;                          ///< of the nodes' processes
  std::vector<std::string> plugged_;                               ///< see RunState
  bool was_removed_ = false;                                       ///< nothing is made any more
  std::vector<std::pair<Network, std::int64_t>> made_networks_;    ///< with journal id
  std::vector<std::pair<std::string, std::int64_t>> made_vxlans_;  ///< likewise
  std::vector<std::pair<Node*, std::int64_t>> made_nodes_;         ///< likewise
  std::vector<std::pair<std::string, std::int64_t>> made_files_;   ///< likewise
  std::vector<std::pair<std::string, std::int64_t>> made_groups_;  ///< of resctrl, likewise
  std::vector<Effect> used_functions_;                             ///< with its journal id each
};

}  // namespace virtrain::vmctl
