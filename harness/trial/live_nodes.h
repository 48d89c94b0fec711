#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"
#include "harness/trial/run_context.h"

namespace virtrain::harness {

/// One node of whichever kind, with its agent.
struct LiveNode {
  vmctl::NodeFacts made;
  const NodePlacement* placement = nullptr;  ///< of the (first) planned node that it stands for
  std::string domain_xml;                    ///< see vmctl::NodeStream
  std::int64_t started_ns = 0;
  double agent_ready_seconds = 0;
  NodeReport report;                     ///< of its agent
  std::optional<MachineReport> machine;  ///< of its agent, where the node is a machine that exists already
  std::shared_ptr<AgentClient> agent;
  std::shared_ptr<LooseCalls> looks;  ///< at its counters, of all nodes that are removed together
};

/// The nodes of one placement in one arm, networks included: brought up by the host, reached, torn down.
class LiveNodes {
 public:
  LiveNodes(RunContext& context, const Placement& placement, const std::string& base);

  /// Stages define and boot: names, places and networks, then all nodes.
  asio::awaitable<void> define();
  asio::awaitable<void> boot();
  /// Stage agent: every node's agent has answered within the scenario's boot_timeout.
  asio::awaitable<void> reach_agents();
  /// Removes everything, whatever fails on the way. Never throws: what could not be removed or struck off the
  /// journal stays there for `clean`, and is returned.
  asio::awaitable<std::vector<std::string>> tear_down();

  std::vector<LiveNode>& nodes() { return nodes_; }
  /// Whether any of those that were reached has ended since.
  bool is_lost() const;

 private:
  asio::awaitable<void> reach_agent(LiveNode& node);

  RunContext& context_;
  const Placement& placement_;
  const std::string base_;
  vmctl::NodeGroupId group_ = 0;  ///< 0: nothing was planned
  std::vector<LiveNode> nodes_;
};

/// The ends of its logs on the host; empty where the host does not tell them.
asio::awaitable<vmctl::LastWords> last_words_of(RunContext& context, const LiveNode& node);

/// Counters of the node as the host sees them, or where its network is nobody's but guests', as the guest
/// sees them.
asio::awaitable<vmctl::NodeCounters> counters_of(RunContext& context, const LiveNode& node);

}  // namespace virtrain::harness
