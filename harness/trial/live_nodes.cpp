#include "harness/trial/live_nodes.h"

#include <tuple>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/plan/node_group.h"
#include "harness/trial/offload.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;
using vmctl::network_by_functions;

constexpr milliseconds slice_agent_deadline{10'000};
/// A longer end of a log that a host tells is cut.
constexpr std::size_t most_log_bytes = 16'384;

/// Whether its host cannot see what the node sends.
bool counts_itself(const vmctl::NodeFacts& made) {
  return made.network_medium == "shared_medium" || made.network_medium == network_by_functions;
}

/// Bytes that an interface has received and sent, from a node's /proc/net/dev, which is there also where /sys
/// is not: "  eth0: 1500 10 0 0 0 0 0 0 9000 12 …".
std::pair<std::uint64_t, std::uint64_t> interface_counters(const std::string& text,
                                                           const std::string& interface) {
  constexpr std::size_t sent_field = 8;
  const auto line = line_value(text, interface);
  const auto fields = virtrain::words_of(line);
  const auto number = [&](std::size_t field) {
    const auto value = fields.size() > field ? parse_integer(fields[field]) : std::nullopt;
    if (!value || *value < 0) {
      throw Error("read the network counters of " + interface, ErrorCode::protocol, "not a number");
    }
    return static_cast<std::uint64_t>(*value);
  };
  return {number(0), number(sent_field)};
}

/// They come to command lines and paths.
void require_network_words(const vmctl::NodeFacts& made) {
  const bool is_address = made.address.empty() || is_ipv4_address(made.address);
  if (is_address && (made.interface.empty() || vmctl::is_device_name(made.interface))) { return; }
  throw Error("plan nodes", ErrorCode::protocol,
              "the host has planned a node with " + printable(made.interface) + " and " +
                  printable(made.address) + " in place of an interface and an IPv4 address");
}

/// "t1n2", of several hosts "t1n2 on gpu-b".
std::string words_of_node(const NodePlacement& placed) {
  return placed.host.empty() ? placed.hostname : placed.hostname + " on " + placed.host;
}

std::string end_of_log(const std::string& told) {
  return printable(told.size() <= most_log_bytes ? told : told.substr(told.size() - most_log_bytes));
}

}  // namespace

LiveNodes::LiveNodes(RunContext& context, const Placement& placement, const std::string& base)
    : context_(context), placement_(placement), base_(base) {}

asio::awaitable<void> LiveNodes::define() {
  const auto spec = node_group(placement_, base_, context_.payloads);
  auto group = co_await context_.hosts.ask(&RunHosts::plan_nodes, spec);
  group_ = group.id;
  const auto looks = std::make_shared<LooseCalls>(context_.io, context_.pool);
  for (auto& made : group.nodes) {
    if (made.tenant >= placement_.tenants.size() ||
        made.placed >= placement_.tenants[made.tenant].nodes.size()) {
      throw Error("plan nodes", ErrorCode::protocol, "the host has planned a node that was not asked for");
    }
    require_network_words(made);
    LiveNode node;
    node.looks = looks;
    node.placement = &placement_.tenants[made.tenant].nodes[made.placed];
    node.made = std::move(made);
    nodes_.push_back(std::move(node));
  }
  co_await context_.hosts.ask(&RunHosts::make_networks, group_);
}

asio::awaitable<void> LiveNodes::boot() {
  std::vector<vmctl::NodeId> ids;
  for (const auto& node : nodes_) { ids.push_back(node.made.id); }
  auto streams = co_await context_.hosts.ask(&RunHosts::start, ids);
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    auto& node = nodes_[n];
    node.domain_xml = std::move(streams[n].domain_xml);
    node.started_ns = streams[n].started_ns;
    node.agent = std::make_shared<AgentClient>(context_.io, words_of_node(*node.placement),
                                               std::move(streams[n].agent));
    node.agent->hears_of_us = placement_.is_attached;
    node.agent->waiting_time = [hosts = context_.hosts, id = node.made.id] { return hosts.waiting_time(id); };
  }
}

asio::awaitable<void> LiveNodes::reach_agents() {
  std::vector<asio::awaitable<void>> reached;
  for (auto& node : nodes_) { reached.push_back(reach_agent(node)); }
  co_await together(std::move(reached));
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
  const auto words = co_await last_words_of(context_, node);
  const auto console =
      words.console.empty() ? "; its console is empty" : "; its console ends with:\n" + words.console;
  throw Error(node.made.starting, ErrorCode::trial_failed, failure + console + words.hypervisor);
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
  if (group_ == 0) { co_return std::vector<std::string>(); }
  auto removal = co_await context_.hosts.ask(&RunHosts::remove, group_);
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

asio::awaitable<vmctl::LastWords> last_words_of(RunContext& context, const LiveNode& node) {
  vmctl::LastWords words;
  try {
    const auto told = co_await node.looks->run(context.hosts.call(&RunHosts::last_words, node.made.id));
    words = {end_of_log(told.console), end_of_log(told.hypervisor)};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) { throw; }
    log::warning("the ends of a node's logs are missing",
                 {{"node", node.made.name}, {"reason", error.what()}});
  }
  co_return words;
}

asio::awaitable<vmctl::NodeCounters> counters_of(RunContext& context, const LiveNode& node) {
  auto counters = co_await node.looks->run(context.hosts.call(&RunHosts::counters, node.made.id));
  const auto& interface = node.made.interface;
  if ((node.machine && !interface.empty()) || counts_itself(node.made)) {
    const auto text = co_await node.agent->read_file("/proc/net/dev");
    std::tie(counters.network_rx_bytes, counters.network_tx_bytes) = interface_counters(text, interface);
  }
  co_return counters;
}

}  // namespace virtrain::harness
