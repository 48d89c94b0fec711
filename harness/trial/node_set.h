#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"
#include "harness/plan/domain_spec.h"
#include "harness/trial/run_context.h"
#include "vmctl/slice/slice.h"

namespace virtrain::harness {

/// One VM or slice with its agent. Which of the two it is only matters while it is made, read and removed.
struct LiveNode {
  std::size_t tenant = 0;
  std::int64_t number = 0;  ///< counted over the experiment
  const NodePlacement* placement = nullptr;
  std::vector<int> cores;  ///< of all the nodes it stands for: one, or in the shared arm its tenant's
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;
  std::string name;  ///< domain "virtrain-<experiment>-<n>" or slice "vt-<tag>-<n>"
  std::string nic;   ///< host side of its network: tap or veth; empty: none
  std::string uuid;  ///< VM only
  std::filesystem::path console_log;
  std::string domain_xml;  ///< what libvirt was given, VM only
  std::int64_t started_ns = 0;
  double agent_ready_seconds = 0;
  nlohmann::json facts;  ///< what its agent says of it
  std::unique_ptr<vmctl::Slice> slice;
  std::shared_ptr<AgentClient> agent;
};

/// Counters of one node as the host sees them.
struct NodeCounters {
  std::uint64_t network_rx_bytes = 0;  ///< what the node received
  std::uint64_t network_tx_bytes = 0;
  std::optional<vmctl::DomainStats> domain;
};

/// The nodes of one placement in one arm, networks included: brought up, used, torn down. Each side effect is
/// journalled before it is tried, and tear_down() undoes whatever was, however far bring_up() came.
class NodeSet {
 public:
  NodeSet(RunContext& context, const Placement& placement, std::string arm);

  /// Stages define and boot: networks, then all nodes.
  asio::awaitable<void> define();
  asio::awaitable<void> boot();
  /// Stage agent: every node's agent has answered within the scenario's boot_timeout.
  asio::awaitable<void> reach_agents();
  /// Removes everything, whatever fails on the way. Never throws: what could not be removed or struck off the
  /// journal stays there for `clean`, and is returned.
  asio::awaitable<std::vector<std::string>> tear_down();

  asio::awaitable<NodeCounters> counters(const LiveNode& node);
  /// The end of a VM's console or an agent's log, for error messages.
  static std::string console_tail(const LiveNode& node);
  /// What QEMU and libvirt wrote last about a VM, to be put behind an error message; empty for a slice.
  std::string qemu_words(const LiveNode& node) const;

  /// Where the trainers of a node may keep what they find out: a folder of this node and no other. Not made.
  std::string cache_home(const LiveNode& node) const;
  /// "shared_medium" where VMs talk over a multicast group that anybody on the host can join; else empty.
  std::string network_medium(const LiveNode& node) const;
  /// What libvirt was given for a VM.
  vmctl::DomainSpec spec_of(const LiveNode& node) const;
  std::vector<LiveNode>& nodes() { return nodes_; }
  bool is_vm() const { return arm_ == arm_vm; }
  bool is_shared() const { return arm_ == arm_bare_metal_shared; }
  vmctl::Virtualization virtualization() const;

 private:
  /// A tenant's network.
  struct NetworkRecord {
    std::string name;  ///< libvirt's, or the bridge's own; empty: there is nothing to make
    std::string bridge;
    bool of_libvirt = false;
    int multicast_port = 0;  ///< where VMs are each other's network

    bool connects() const { return !name.empty() || multicast_port != 0; }
  };

  void plan_nodes();
  NetworkRecord plan_network(std::size_t tenant) const;
  std::string plan_nic(const LiveNode& node) const;
  std::optional<vmctl::NicKind> vm_nic(const LiveNode& node) const;
  vmctl::SliceSpec slice_spec(const LiveNode& node) const;
  std::optional<vmctl::BootDisk> boot_disk_of(const LiveNode& node) const;
  asio::awaitable<void> make_boot_disk(const LiveNode& node);
  asio::awaitable<void> start_vm(LiveNode& node);
  asio::awaitable<void> start_slice(LiveNode& node);
  asio::awaitable<void> reach_agent(LiveNode& node, std::chrono::milliseconds deadline);
  asio::awaitable<void> remove_node(LiveNode& node);
  asio::awaitable<void> remove_domain(const std::string& name);
  asio::awaitable<void> remove_network(const NetworkRecord& network);
  /// Of something that is gone. Where the journal refuses (its disk is full) the other things go all the
  /// same.
  void strike_off(const std::string& name, std::int64_t journal_id, std::vector<std::string>& left);

  RunContext& context_;
  const Placement& placement_;
  std::string arm_;
  HostNames names_;
  std::vector<LiveNode> nodes_;
  std::vector<NetworkRecord> networks_;                                ///< by tenant
  std::vector<std::pair<NetworkRecord, std::int64_t>> made_networks_;  ///< with journal id
  std::vector<std::pair<std::size_t, std::int64_t>> made_nodes_;       ///< index in nodes_, journal id
  std::vector<std::pair<std::string, std::int64_t>> made_files_;       ///< path, journal id
};

}  // namespace virtrain::harness
