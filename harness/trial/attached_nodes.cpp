#include "harness/trial/attached_nodes.h"

#include <fmt/format.h>

#include <set>

#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/units.h"
#include "harness/job/rank_addresses.h"

namespace virtrain::harness {
namespace {

/// A node that has fewer CPUs than the scenario's would train less without a word.
void require_size(const LiveTrial& trial, const LiveNode& node) {
  const auto cpus = parse_cpu_list(node.report.cpus.value_or(""));
  const auto wanted = trial.placement.guest.vcpus;
  if (cpus.empty() || std::ssize(cpus) >= wanted) { return; }
  throw Error("look at " + node.made.name, ErrorCode::trial_failed,
              fmt::format("it has {}, and guest.vcpus asks for {} (use fewer vcpus, in all arms)",
                          counted(cpus.size(), "CPU"), wanted));
}

}  // namespace

asio::awaitable<void> look_at_machines(LiveTrial& trial, LiveNodes& nodes) {
  std::set<std::string> kinds;
  std::map<std::size_t, std::vector<LiveNode*>> by_tenant;
  for (auto& node : nodes.nodes()) {
    node.machine = co_await node.agent->machine();
    require_size(trial, node);
    const auto kind = virtualization_of(*node.machine);
    kinds.insert(kind ? to_string(*kind) : "");
    by_tenant[node.made.tenant].push_back(&node);
  }
  for (auto& [tenant, members] : by_tenant) {
    std::vector<AddressedMachine> machines;
    for (const auto* node : members) {
      machines.push_back({node->made.name, *node->machine, node->placement->address});
    }
    const auto addresses = rank_addresses(machines);
    for (std::size_t i = 0; i < members.size(); ++i) {
      members[i]->made.address = addresses[i].address;
      members[i]->made.interface = addresses[i].interface;
    }
  }
  // Where machines differ, or do not say, it is not known.
  if (kinds.size() == 1 && !kinds.begin()->empty()) {
    trial.context.store.set_trial_virtualization(trial.row, *kinds.begin());
  }
}

}  // namespace virtrain::harness
