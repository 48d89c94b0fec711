#include "harness/trial/live_nodes.h"

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/plan/node_group.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds slice_agent_deadline{10'000};
constexpr std::size_t log_tail_bytes = 3000;

asio::awaitable<std::uint64_t> guest_counter(AgentClient& agent, std::string name) {
  const auto text = co_await agent.read_file("/sys/class/net/eth0/statistics/" + name);
  const auto number = parse_integer(trim(text));
  if (!number || *number < 0) {
    throw Error("read the guest's network counters", ErrorCode::protocol, "not a number");
  }
  co_return static_cast<std::uint64_t>(*number);
}

}  // namespace

std::string LiveNode::log_tail() const {
  return printable(trim(read_tail(made.log, log_tail_bytes).value_or("")));
}

LiveNodes::LiveNodes(RunContext& context, const Placement& placement, const std::string& base)
    : context_(context), placement_(placement) {
  auto group = context.host.plan_nodes(node_group(placement, base));
  group_ = group.id;
  const auto looks = std::make_shared<LooseCalls>(context.io, context.pool);
  for (auto& made : group.nodes) {
    LiveNode node;
    node.looks = looks;
    node.placement = &placement.tenants[made.tenant].nodes[made.placed];
    node.made = std::move(made);
    nodes_.push_back(std::move(node));
  }
}

asio::awaitable<void> LiveNodes::define() {
  const auto make = [this] { context_.host.make_networks(group_); };
  co_await offload(context_.pool, make);
}

asio::awaitable<void> LiveNodes::boot() {
  for (auto& node : nodes_) {
    const auto start = [this, &node] { return context_.host.start(node.made.id); };
    auto stream = co_await offload(context_.pool, start);
    node.domain_xml = std::move(stream.domain_xml);
    node.started_ns = stream.started_ns;
    node.agent =
        std::make_shared<AgentClient>(context_.io, node.placement->hostname, std::move(stream.agent));
    node.agent->waiting_time = [&host = context_.host, id = node.made.id] { return host.waiting_time(id); };
  }
}

asio::awaitable<void> LiveNodes::reach_agents() {
  for (auto& node : nodes_) { co_await reach_agent(node); }
}

asio::awaitable<void> LiveNodes::reach_agent(LiveNode& node) {
  const milliseconds deadline =
      node.made.has_own_kernel
          ? milliseconds(boot_deadline_ns(context_.scenario, placement_.guest, *node.placement) / 1'000'000)
          : slice_agent_deadline;
  std::string failure;
  try {
    node.report = co_await node.agent->handshake(deadline);
    node.agent_ready_seconds = static_cast<double>(monotonic_ns() - node.started_ns) * 1e-9;
    co_return;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) { throw; }
    failure = error.what();
  }
  const std::string tail = node.log_tail();
  throw Error(node.made.starting, ErrorCode::trial_failed,
              failure + (tail.empty() ? "; its console is empty" : "; its console ends with:\n" + tail) +
                  context_.host.last_words(node.made.id));
}

bool LiveNodes::is_lost() const {
  return std::ranges::any_of(nodes_,
                             [](const LiveNode& node) { return node.agent && node.agent->is_lost(); });
}

asio::awaitable<std::vector<std::string>> LiveNodes::tear_down() {
  for (auto& node : nodes_) {
    if (node.agent) { node.agent->close(); }
    node.agent.reset();
  }
  const auto remove = [this] { return context_.host.remove(group_); };
  auto removal = co_await offload(context_.pool, remove);
  for (auto& node : nodes_) { co_await node.looks->ended(); }
  for (const auto& reason : removal.restarts) {
    constexpr const char* tried_again = "libvirt failed, trying again with a fresh daemon";
    try {
      context_.event(std::nullopt, "tear_down", tried_again, {.reason = reason});
    } catch (const Error& error) {  // the database's: what is still to be removed must not wait for it
      log::warning(tried_again, {{"reason", reason}, {"not_recorded", error.what()}});
    }
  }
  co_return std::move(removal.left);
}

asio::awaitable<vmctl::NodeCounters> counters_of(RunContext& context, const LiveNode& node) {
  const auto look = [&host = context.host, id = node.made.id] { return host.counters(id); };
  auto counters = co_await node.looks->run(look);
  if (!node.made.network_medium.empty()) {
    counters.network_rx_bytes = co_await guest_counter(*node.agent, "rx_bytes");
    counters.network_tx_bytes = co_await guest_counter(*node.agent, "tx_bytes");
  }
  co_return counters;
}

}  // namespace virtrain::harness
