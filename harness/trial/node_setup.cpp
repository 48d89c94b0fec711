#include "harness/trial/node_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/cpu_list.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/agent/client/run_in_node.h"
#include "harness/job/gpu_environment.h"
#include "harness/job/guest_gpus.h"
#include "harness/job/node_probes.h"
#include "harness/job/programs.h"
#include "harness/job/rank_addresses.h"
#include "harness/trial/offload.h"
#include "vmctl/api/device.h"

namespace virtrain::harness {
namespace {

/// For NCCL_TOPO_FILE: a guest cannot see the host's switches and links.
constexpr const char* guest_nccl_topology = "/run/nccl-topology.xml";
constexpr std::chrono::seconds query_deadline{60};
/// Deadline of one command of virtrain-probe; those of an emulated node take minutes.
constexpr std::chrono::minutes probe_deadline{10};

/// Where a node's ranks find the experiment's engines and leave theirs; nothing for those that use none, or
/// that the scenario has given a cache of its own.
std::optional<std::string> plans_home(const LiveTenant& tenant, const TrialNode& node) {
  if (!tenant.trains_with_cuda() || tenant.plan.workload.environment.contains(cache_variable)) {
    return std::nullopt;
  }
  return node.live.made.cache_home;
}

/// Whose word on engines this node's is: a guest's tenant, empty on bare metal.
std::string guest_of(const LiveTrial& trial, const LiveTenant& tenant, const TrialNode& node) {
  return node.live.made.has_own_kernel ? trial.placement.case_name + "/" + tenant.plan.name : "";
}

/// Throws the error where it is a stop.
void note_plans_failure(LiveTrial& trial, const std::string& what, const TrialNode& node,
                        const Error& error) {
  if (error.code() == ErrorCode::interrupted) { throw Error(error); }
  trial.event(what, {.reason = error.what(), .node = node.live.placement->hostname});
}

/// Addresses of devices of the class that ranks of the node may use. A virtual adapter, which bare metal does
/// not have, counts by its physical one.
std::vector<std::string> addresses_of(vmctl::DeviceClass wanted, const LiveTrial& trial,
                                      const LiveTenant& tenant, const TrialNode& node) {
  std::vector<std::string> addresses;
  for (const auto* planned : trial.placements_of(tenant, node)) {
    for (const auto& device : planned->devices) {
      if (device.device_class == wanted) { addresses.push_back(card_of(device.grant)); }
    }
  }
  return addresses;
}

/// Whether a command of the user's own has NVIDIA's GPUs.
bool runs_job_on_gpus(const LiveTenant& tenant, const TrialNode& node) {
  const auto is_gpu = [](const vmctl::PlacedDevice& device) {
    return device.device_class == vmctl::DeviceClass::gpu && device.vendor == vmctl::nvidia;
  };
  return tenant.runs_job() && std::ranges::any_of(node.live.placement->devices, is_gpu);
}

asio::awaitable<void> look_at_devices_of(LiveTrial& trial, TrialNode& node) {
  auto& context = trial.context;
  auto& live = node.live;
  const auto functions = co_await live.agent->pci_functions();
  const auto peers = co_await guest_peer_matrix(context.io, live.agent, live.placement->devices);
  node.topology = co_await context.hosts.ask(&RunHosts::check_topology, live.made.id, functions, peers);
  for (const auto& difference : node.topology.differences) {
    context.event(trial.row, "agent", "the guest's devices differ from the plan: " + difference.words,
                  {.node = live.placement->hostname, .xml_that_mends_it = difference.xml});
  }
  const auto& wanted = trial.placement.guest.nccl_topology;
  if (wanted == "off") { node.topology.nccl_topology.clear(); }
  if (wanted.starts_with('/')) { node.topology.nccl_topology = read_file(wanted).value_or(""); }
  if (!node.topology.nccl_topology.empty()) {
    co_await live.agent->write_file(guest_nccl_topology, node.topology.nccl_topology);
  }
  co_await prepare_guest_gpus(context.io, live.agent, trial.placement.devices,
                              node.topology.gpu_numa_nodes.size());
}

asio::awaitable<void> probe_node(LiveTrial& trial, const LiveTenant& tenant, const TrialNode& node,
                                 std::vector<std::string> command) {
  auto& context = trial.context;
  std::string failure;
  try {
    std::vector<std::string> with_environment{"env"};
    for (const auto& [name, value] : co_await gpu_environment(trial, tenant, node)) {
      with_environment.push_back(fmt::format("{}={}", name, value));
    }
    with_environment.insert(with_environment.end(), command.begin(), command.end());
    const auto lines = co_await run_in_node(context.io, node.live.agent, with_environment, probe_deadline);
    const auto figures =
        parse_probe_records(lines, trial.planned.arm, node.live.placement->hostname, trial.planned.order);
    context.store.add_probes(context.experiment, figures);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::trial_failed) { throw; }
    failure = error.what();
  }
  if (!failure.empty()) { context.event(trial.row, "agent", "a probe failed", {.reason = failure}); }
}

asio::awaitable<void> look_at_licence(LiveTrial& trial, TrialNode& node,
                                      std::optional<bool> TrialNode::*into) {
  node.*into = co_await guest_is_licensed(trial.context.io, node.live.agent, trial.placement.devices,
                                          node.topology.gpu_numa_nodes.size());
}

template <typename Counters>
asio::awaitable<void> read_counters(RunContext& context, const TrialNode& node, Counters& into) {
  into = co_await counters_of(context, node.live);
}

/// Open MPI and NCCL print lines of their own among them.
std::string records_in(const std::string& lines) {
  std::string records;
  for (const auto& line : split(lines, '\n')) {
    if (line.starts_with('{')) { records += line + "\n"; }
  }
  return records;
}

void add_host_telemetry(TrialNode& node, const vmctl::NodeCounters& counters) {
  if (!counters.domain) { return; }
  const auto& stats = *counters.domain;
  const auto add = [&](const char* metric, double value) {
    node.telemetry.push_back({stats.monotonic_ns, "host", metric, value});
  };
  double vcpu_ns = 0, wait_ns = 0;
  for (const auto& vcpu : stats.vcpus) {
    vcpu_ns += static_cast<double>(vcpu.time_ns);
    wait_ns += static_cast<double>(vcpu.wait_ns.value_or(0));
  }
  add("cpu_seconds", static_cast<double>(stats.cpu_time_ns) * 1e-9);
  add("vcpu_seconds", vcpu_ns * 1e-9);
  add("vcpu_wait_seconds", wait_ns * 1e-9);
  add("helper_cpu_seconds", static_cast<double>(stats.helper_cpu_ns) * 1e-9);
  add("rss_bytes", static_cast<double>(stats.rss_bytes));
  add("network_rx_bytes", static_cast<double>(counters.network_rx_bytes));
  add("network_tx_bytes", static_cast<double>(counters.network_tx_bytes));
}

}  // namespace

std::vector<const NodePlacement*> LiveTrial::placements_of(const LiveTenant& tenant,
                                                           const TrialNode& node) const {
  std::vector<const NodePlacement*> found;
  for (const auto& planned : tenant.plan.nodes) {
    const bool is_of_it =
        is_shared() ? planned.host == node.live.placement->host : &planned == node.live.placement;
    if (is_of_it) { found.push_back(&planned); }
  }
  return found;
}

asio::awaitable<void> look_at_guest_devices(LiveTrial& trial) {
  std::vector<asio::awaitable<void>> looks;
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) {
      if (node.live.made.has_own_kernel && !vmctl::devices_of(*node.live.placement).empty()) {
        looks.push_back(look_at_devices_of(trial, node));
      }
    }
  }
  co_await together(std::move(looks));
}

asio::awaitable<std::map<std::string, std::string>> gpu_environment(LiveTrial& trial,
                                                                    const LiveTenant& tenant,
                                                                    const TrialNode& node) {
  std::map<std::string, std::string> environment;
  if (!tenant.trains_with_cuda() && !runs_job_on_gpus(tenant, node)) { co_return environment; }
  if (const auto home = plans_home(tenant, node)) { environment[cache_variable] = *home; }
  // Which GPUs a machine gives to this user is its own affair, which may be in the environment there.
  if (node.live.machine) { co_return environment; }
  if (node.live.made.has_own_kernel) {
    const bool has_own = tenant.plan.workload.environment.contains("NCCL_TOPO_FILE");
    if (!has_own && !node.topology.nccl_topology.empty()) {
      environment["NCCL_TOPO_FILE"] = guest_nccl_topology;
    }
    co_return environment;
  }
  const auto answer =
      co_await run_in_node(trial.context.io, node.live.agent, gpu_uuid_query(), query_deadline);
  environment["CUDA_VISIBLE_DEVICES"] =
      visible_gpus(answer, addresses_of(vmctl::DeviceClass::gpu, trial, tenant, node));
  // Left free, NCCL would take all adapters of the host, where a VM has its own.
  const auto adapters = addresses_of(vmctl::DeviceClass::rdma_nic, trial, tenant, node);
  if (!adapters.empty() && !tenant.plan.workload.environment.contains("NCCL_IB_HCA")) {
    const auto names =
        co_await run_in_node(trial.context.io, node.live.agent, rdma_name_query(adapters), query_deadline);
    environment["NCCL_IB_HCA"] = usable_adapters(names);
  }
  co_return environment;
}

FusionRule fusion_rule(LiveTrial& trial, const LiveTenant& tenant) {
  const auto& first = tenant.nodes.at(0);
  if (!plans_home(tenant, first)) { return FusionRule::highest; }
  const auto& w = tenant.plan.workload;
  const auto trained =
      fmt::format("{} {}px n{} x{}", to_string(w.precision), w.image_size, w.batch_size, w.accumulate_steps);
  return trial.plans.fusion_rule(guest_of(trial, tenant, first), trained, trial.tenants.size() == 1);
}

asio::awaitable<void> give_plans_to(LiveTrial& trial) {
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) {
      const auto home = plans_home(tenant, node);
      if (!home) { continue; }
      try {
        const auto plans = trial.plans.for_node(guest_of(trial, tenant, node));
        co_await give_plans(trial.context.io, node.live.agent, *home, plans);
      } catch (const Error& error) {
        note_plans_failure(trial, "the engines known so far could not be given to a node", node, error);
      }
    }
  }
}

/// Takes them from all nodes, for each may have GPUs of its own kind.
asio::awaitable<void> take_plans_from(LiveTrial& trial) {
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) {
      const auto home = plans_home(tenant, node);
      if (!home) { continue; }
      try {
        const auto found = co_await take_plans(node.live.agent, *home);
        if (const auto count = trial.plans.add(guest_of(trial, tenant, node), found); count > 0) {
          trial.event("guests and bare metal run different engines",
                      {.node = node.live.placement->hostname, .graphs = count});
        }
      } catch (const Error& error) {
        note_plans_failure(trial, "the engines that a node has timed could not be read", node, error);
      }
    }
  }
}

asio::awaitable<void> look_at_licences(LiveTrial& trial, std::optional<bool> TrialNode::*into) {
  std::vector<asio::awaitable<void>> looks;
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) { looks.push_back(look_at_licence(trial, node, into)); }
  }
  co_await together(std::move(looks));
}

asio::awaitable<void> read_first_counters(LiveTrial& trial) {
  std::vector<asio::awaitable<void>> readings;
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) { readings.push_back(read_counters(trial.context, node, node.before)); }
  }
  co_await together(std::move(readings));
}

asio::awaitable<void> read_last_counters(LiveTrial& trial) {
  try {
    std::vector<asio::awaitable<void>> readings;
    for (auto& tenant : trial.tenants) {
      for (auto& node : tenant.nodes) { readings.push_back(read_counters(trial.context, node, node.after)); }
    }
    co_await together(std::move(readings));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) { throw; }
    trial.event("the nodes' counters could not be read at the end", {.reason = error.what()});
  }
}

/// One node after the other, so that each figure is of the node alone.
asio::awaitable<void> probe_nodes(LiveTrial& trial) {
  const auto& scenario = trial.context.scenario;
  for (const auto& tenant : trial.trainers()) {
    for (const auto& node : tenant.nodes) {
      std::int64_t gpus = tenant.trains_with_cuda() ? tenant.plan.gpus_per_node : 0;
      gpus *= std::ssize(trial.placements_of(tenant, node));
      const auto& program = node.live.made.programs.at(probe_program);
      for (const auto& command :
           probe_commands(program, scenario.probes, trial.placement.guest.memory_bytes, gpus)) {
        co_await probe_node(trial, tenant, node, command);
      }
    }
  }
}

asio::awaitable<void> probe_ranks(LiveTrial& trial) {
  auto& context = trial.context;
  for (const auto& tenant : trial.trainers()) {
    if (tenant.plan.ranks() < 2) { continue; }
    const bool is_local = tenant.nodes.size() == 1;
    const auto& program = tenant.nodes[0].live.made.programs.at(probe_program);
    for (auto& command : rank_probe_commands(program, context.scenario.probes, tenant.trains_with_cuda(),
                                             is_local ? "shm" : "tcp")) {
      std::string failure;
      try {
        const auto lines = co_await tenant.job->measure(std::move(command), probe_deadline);
        context.store.add_probes(context.experiment, parse_probe_records(records_in(lines), trial.planned.arm,
                                                                         "", trial.planned.order));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::trial_failed) { throw; }
        failure = error.what();
      }
      if (!failure.empty()) { context.event(trial.row, "agent", "a probe failed", {.reason = failure}); }
    }
  }
}

asio::awaitable<void> look_from_host(LiveTrial& trial) {
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) {
      if (!node.visible_from_host) { continue; }
      try {
        add_host_telemetry(node, co_await counters_of(trial.context, node.live));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::interrupted) { throw; }  // the trial has ended meanwhile
        // Only telemetry is lost; whether the node lives is its agent's to say, and must not wait for libvirt
        // again.
        node.visible_from_host = false;
        trial.context.event(trial.row, "run", "the host no longer sees into the node",
                            {.reason = error.what(), .node = node.live.made.name});
      }
    }
  }
}

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
