#include "harness/trial/trial_run.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/time.h"
#include "harness/agent/client/run_in_node.h"
#include "harness/job/gpu_environment.h"
#include "harness/job/guest_gpus.h"
#include "harness/job/node_probes.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// For NCCL_TOPO_FILE: a guest cannot see the host's switches and links.
constexpr const char* guest_nccl_topology = "/run/nccl-topology.xml";
constexpr milliseconds telemetry_period{1'000};
/// mpirun, its daemons and MPI_Init; a guest under TCG that shares its core needs most of it.
constexpr milliseconds place_deadline{120'000};
constexpr seconds tool_deadline{60};

}  // namespace

void RunContext::event(std::optional<std::int64_t> trial, const std::string& stage,
                       const std::string& message, const nlohmann::json& detail) {
  store.add_event(experiment, {trial, monotonic_ns(), iso8601(wall_ns()), stage, message, detail});
  nlohmann::json fields = detail.is_object() ? detail : nlohmann::json::object();
  fields["stage"] = stage;
  if (trial) { fields["trial"] = *trial; }
  log::debug(message, fields);
}

TrialRun::TrialRun(RunContext& context, const PlannedTrial& planned, std::int64_t trial_row,
                   KnownPlans& plans)
    : context_(context),
      planned_(planned),
      placement_(context.plan.placements[planned.placement]),
      trial_row_(trial_row),
      plans_(plans) {}

TrialRun::~TrialRun() {
  for (auto& agent : watched_) {
    agent->on_lost = nullptr;
    agent->on_telemetry = nullptr;
  }
}

void TrialRun::enter(const std::string& stage) {
  stage_ = stage;
  context_.event(trial_row_, stage, "stage " + stage);
  if (context_.progress) { context_.progress(stage); }
}

milliseconds TrialRun::time_left() const {
  return milliseconds(std::max<std::int64_t>(1, (deadline_ns_ - monotonic_ns()) / 1'000'000));
}

asio::awaitable<void> TrialRun::run(NodeSet& nodes, bool nodes_are_up) {
  save_tenants();
  if (!nodes_are_up) {
    enter("define");
    co_await nodes.define();
    enter("boot");
    co_await nodes.boot();
    enter("agent");
    co_await nodes.reach_agents();
  }
  deadline_ns_ = monotonic_ns() + context_.scenario.trial_timeout_ns;
  save_nodes(nodes);
  watch_agents(nodes);
  if (nodes.is_vm()) { co_await look_at_guest_devices(nodes); }
  co_await make_jobs(nodes);
  co_await give_plans_to(nodes);
  if (planned_.pair == 1 && !context_.scenario.probes.empty()) { co_await probe(nodes); }
  co_await look_at_licences(nodes, &NodeRow::licensed_at_start);
  enter("place");
  co_await place(nodes);
  enter("barrier");
  co_await barrier(nodes);
  enter("run");
  co_await measure(nodes);
  enter("collect");
  co_await collect(nodes);
}

// --- stages

/// What ranks on a node must know of its GPUs: in a VM how they hang together on the host, and on bare metal
/// which of the host's they may use.
asio::awaitable<std::map<std::string, std::string>> TrialRun::gpu_environment(NodeSet& nodes, std::size_t n) {
  const auto& live = nodes.nodes()[n];
  const auto& tenant = placement_.tenants[live.tenant];
  std::map<std::string, std::string> environment;
  if (tenant.workload.backend != Backend::cuda) { co_return environment; }
  if (const auto home = plans_home(nodes, n)) { environment[cache_variable] = *home; }
  if (nodes.is_vm()) {
    const bool has_own = tenant.workload.environment.contains("NCCL_TOPO_FILE");
    if (!has_own && !node_rows_[n].topology.nccl_topology.empty()) {
      environment["NCCL_TOPO_FILE"] = guest_nccl_topology;
    }
    co_return environment;
  }
  std::vector<std::string> addresses;
  for (const auto& node : tenant.nodes) {  // the one slice of bare_metal_shared stands for all of them
    if (nodes.is_shared() || &node == live.placement) {
      for (const auto& device : node.devices) {
        if (device.device_class == vmctl::DeviceClass::gpu) { addresses.push_back(device.grant.address); }
      }
    }
  }
  const auto answer = co_await run_in_node(context_.io, live.agent, gpu_uuid_query(), tool_deadline);
  environment["CUDA_VISIBLE_DEVICES"] = visible_gpus(answer, addresses);
  co_return environment;
}

/// Where a node's ranks find the experiment's engines and leave theirs; nothing for those that use none, or
/// that the scenario has given a cache of its own.
std::optional<std::string> TrialRun::plans_home(NodeSet& nodes, std::size_t n) const {
  const auto& live = nodes.nodes()[n];
  const auto& workload = placement_.tenants[live.tenant].workload;
  if (workload.backend != Backend::cuda || workload.environment.contains(cache_variable)) {
    return std::nullopt;
  }
  return nodes.cache_home(live);
}

/// Whose word on engines this node's is: a guest's tenant, empty on bare metal.
std::string TrialRun::guest_of(NodeSet& nodes, const LiveNode& node) const {
  return nodes.is_vm() ? placement_.case_name + "/" + placement_.tenants[node.tenant].name : "";
}

asio::awaitable<void> TrialRun::give_plans_to(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    const auto home = plans_home(nodes, n);
    if (!home) { continue; }
    const auto& live = nodes.nodes()[n];
    try {
      const auto plans = plans_.for_node(guest_of(nodes, live));
      co_await give_plans(context_.io, live.agent, *home, plans);
    } catch (const Error& error) {
      note_plans_failure("the engines known so far could not be given to a node", live, error);
    }
  }
}

/// Of all nodes, for each may have GPUs of its own kind.
asio::awaitable<void> TrialRun::take_plans_from(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    const auto home = plans_home(nodes, n);
    if (!home) { continue; }
    const auto& live = nodes.nodes()[n];
    try {
      const auto found = co_await take_plans(live.agent, *home);
      if (const auto count = plans_.add(guest_of(nodes, live), found); count > 0) {
        context_.event(trial_row_, stage_, "guests and bare metal run different engines",
                       {{"node", live.placement->hostname}, {"graphs", count}});
      }
    } catch (const Error& error) {
      note_plans_failure("the engines that a node has timed could not be read", live, error);
    }
  }
}

/// The trial goes on, and its ranks or a later trial's time for themselves. Throws the error where it is a
/// stop.
void TrialRun::note_plans_failure(const std::string& what, const LiveNode& node, const Error& error) {
  if (error.code() == ErrorCode::interrupted) { throw Error(error); }
  context_.event(trial_row_, stage_, what, {{"node", node.placement->hostname}, {"reason", error.what()}});
}

asio::awaitable<void> TrialRun::make_jobs(NodeSet& nodes) {
  for (std::size_t t = 0; t < placement_.tenants.size(); ++t) {
    const auto& placed = placement_.tenants[t];
    std::vector<JobNode> job_nodes;
    for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
      const auto& live = nodes.nodes()[n];
      if (live.tenant != t) { continue; }
      auto environment = co_await gpu_environment(nodes, n);
      job_nodes.push_back({live.placement->hostname, live.agent, std::move(environment)});
    }
    const auto network = placed.ranks() == 1     ? RankNetwork::single_process
                         : job_nodes.size() == 1 ? RankNetwork::shared_memory
                                                 : RankNetwork::tcp;
    auto job = std::make_shared<TenantJob>(context_.io, placed, std::move(job_nodes), network,
                                           placement_.oversubscribed, placement_.tenants.size() > 1);
    job->on_record = [this, t](std::int64_t rank, const RankRecord& record) { on_record(t, rank, record); };
    jobs_.push_back(std::move(job));
  }
}

void TrialRun::watch_agents(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    auto& live = nodes.nodes()[n];
    watched_.push_back(live.agent);
    live.agent->on_lost = [this, &nodes, &live](const std::string& reason) {
      if (console_tail_.empty()) { console_tail_ = NodeSet::console_tail(live); }
      const auto words = fmt::format("node {} ({}) is lost: {}{}", live.placement->hostname, live.name,
                                     reason, nodes.qemu_words(live));
      for (auto& job : jobs_) { job->fail(words); }
    };
    live.agent->on_telemetry = [this, n](const std::map<std::string, double>& readings, std::int64_t t_ns) {
      for (const auto& [metric, value] : readings) {
        node_rows_[n].telemetry.push_back({t_ns, "guest", metric, value});
      }
    };
  }
}

/// What was lent must be there, and near what it is near to on the host; the rest explains figures.
asio::awaitable<void> TrialRun::look_at_guest_devices(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    auto& live = nodes.nodes()[n];
    if (live.placement->devices.empty()) { continue; }
    const auto functions = co_await live.agent->pci_functions();
    auto& topology = node_rows_[n].topology;
    const auto peers = co_await guest_peer_matrix(context_.io, live.agent, live.placement->devices);
    topology = vmctl::check_guest_topology(nodes.spec_of(live), functions, peers);
    for (const auto& difference : topology.differences) {
      context_.event(trial_row_, "agent", "the guest's devices differ from the plan: " + difference.words,
                     {{"node", live.placement->hostname}, {"xml_that_mends_it", difference.xml}});
    }
    if (!topology.nccl_topology.empty()) {
      co_await live.agent->write_file(guest_nccl_topology, topology.nccl_topology);
    }
    co_await prepare_guest_gpus(context_.io, live.agent, context_.scenario.devices,
                                topology.gpu_numa_nodes.size());
  }
}

asio::awaitable<void> TrialRun::look_at_licences(NodeSet& nodes, std::optional<bool> NodeRow::*into) {
  for (std::size_t n = 0; n < node_rows_.size(); ++n) {
    node_rows_[n].*into =
        co_await guest_is_licensed(context_.io, nodes.nodes()[n].agent, context_.scenario.devices,
                                   node_rows_[n].topology.gpu_numa_nodes.size());
  }
}

/// One node after the other, so that each figure is of the node alone.
asio::awaitable<void> TrialRun::probe(NodeSet& nodes) {
  if (context_.progress) { context_.progress("probes"); }
  const std::string program = nodes.is_vm() ? Programs::guest_probe : context_.programs.probe.string();
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    const auto& tenant = placement_.tenants[nodes.nodes()[n].tenant];
    std::int64_t gpus = tenant.workload.backend == Backend::cuda ? tenant.gpus_per_node : 0;
    if (nodes.is_shared()) {
      gpus *= std::ssize(tenant.nodes);  // one slice stands for all of them
    }
    for (const auto& command :
         probe_commands(program, context_.scenario.probes, context_.scenario.guest.memory_bytes, gpus)) {
      co_await probe_node(nodes, n, command);
    }
  }
}

/// They explain a gap; a trial whose probes fail is as good as any other.
asio::awaitable<void> TrialRun::probe_node(NodeSet& nodes, std::size_t n, std::vector<std::string> command) {
  const auto& live = nodes.nodes()[n];
  std::string failure;
  try {
    std::vector<std::string> with_environment{"env"};
    for (const auto& [name, value] : co_await gpu_environment(nodes, n)) {
      with_environment.push_back(fmt::format("{}={}", name, value));
    }
    with_environment.insert(with_environment.end(), command.begin(), command.end());
    const auto lines = co_await run_in_node(context_.io, live.agent, with_environment, time_left());
    const auto figures = parse_probe_records(lines, planned_.arm, live.placement->hostname);
    context_.store.add_probes(context_.experiment, figures);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::trial_failed) { throw; }
    failure = error.what();
  }
  if (!failure.empty()) { context_.event(trial_row_, "agent", "a probe failed", {{"reason", failure}}); }
}

asio::awaitable<void> TrialRun::place(NodeSet& nodes) {
  const auto timeout = std::chrono::duration_cast<seconds>(time_left()) + seconds(1);
  for (auto& job : jobs_) {
    const auto backend = job->placement().workload.backend;
    const auto trainer =
        nodes.is_vm() ? Programs::guest_trainer(backend) : context_.programs.trainers.at(backend).string();
    co_await job->launch(trainer, timeout);
  }
  for (auto& job : jobs_) { co_await job->wait_for_hello(std::min(place_deadline, time_left())); }
}

asio::awaitable<void> TrialRun::barrier(NodeSet& nodes) {
  for (auto& job : jobs_) { co_await job->wait_for_ready(time_left()); }
  co_await take_plans_from(nodes);
  if (context_.scenario.settle_ns > 0) {
    asio::steady_timer settle(context_.io, std::chrono::nanoseconds(context_.scenario.settle_ns));
    co_await settle.async_wait(asio::use_awaitable);
  }
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    auto& agent = *nodes.nodes()[n].agent;
    co_await agent.synchronize_clock(8);
    node_rows_[n].record.clock_offset_ns = agent.clock().offset_ns;
    node_rows_[n].record.clock_uncertainty_ns = agent.clock().uncertainty_ns;
    // A VM's cores are all its own; a slice sees the whole host in /proc/stat.
    const std::string cores = nodes.is_vm() ? "" : format_cpu_list(nodes.nodes()[n].cores);
    co_await agent.start_telemetry(telemetry_period, cores);
  }
  co_await read_counters(nodes, &NodeRow::before);
  device_watch_.emplace(placement_);
}

asio::awaitable<void> TrialRun::measure(NodeSet& nodes) {
  context_.store.set_trial_started(trial_row_, iso8601(wall_ns()));
  std::exception_ptr failure;
  const auto train = [&]() -> asio::awaitable<void> {
    try {
      // One after the other without waiting in between: the spread is measured from the ranks' own first
      // steps.
      for (auto& job : jobs_) { co_await job->go(); }
      for (auto& job : jobs_) { co_await job->wait_for_results(time_left()); }
    } catch (...) { failure = std::current_exception(); }
  };
  co_await (train() || poll(nodes));
  if (failure) { std::rethrow_exception(failure); }
}

asio::awaitable<void> TrialRun::poll(NodeSet& nodes) {
  asio::steady_timer timer(context_.io);
  while (true) {
    timer.expires_after(telemetry_period);
    co_await timer.async_wait(asio::use_awaitable);
    if (const auto failure = try_flush()) {
      for (auto& job : jobs_) { job->fail(*failure); }
      timer.expires_at(
          asio::steady_timer::time_point::max());  // the failed jobs end the trial, this must not
      co_await timer.async_wait(asio::use_awaitable);
    }
    if (device_watch_) { device_watch_->look(); }
    if (nodes.is_vm()) { co_await look_at_nodes(nodes); }
  }
}

std::optional<std::string> TrialRun::try_flush() {
  try {
    flush();
    return std::nullopt;
  } catch (const Error& error) { return error.what(); }
}

asio::awaitable<void> TrialRun::look_at_nodes(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    if (!node_rows_[n].visible_from_host) { continue; }
    try {
      add_host_telemetry(node_rows_[n], co_await nodes.counters(nodes.nodes()[n]));
    } catch (const Error& error) {
      // Only telemetry is lost; whether the node lives is its agent's to say, and must not wait for libvirt
      // again.
      node_rows_[n].visible_from_host = false;
      context_.event(trial_row_, "run", "the host no longer sees into the node",
                     {{"node", nodes.nodes()[n].name}, {"reason", error.what()}});
    }
  }
}

void TrialRun::add_host_telemetry(NodeRow& row, const NodeCounters& counters) {
  if (!counters.domain) { return; }
  const auto& stats = *counters.domain;
  const auto add = [&](const char* metric, double value) {
    row.telemetry.push_back({stats.monotonic_ns, "host", metric, value});
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

asio::awaitable<void> TrialRun::read_counters(NodeSet& nodes, NodeCounters NodeRow::*into) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    node_rows_[n].*into = co_await nodes.counters(nodes.nodes()[n]);
  }
}

asio::awaitable<void> TrialRun::collect(NodeSet& nodes) {
  co_await read_counters(nodes, &NodeRow::after);
  co_await look_at_licences(nodes, &NodeRow::licensed_at_end);
  for (auto& job : jobs_) {
    const auto killed = co_await job->sweep();
    if (killed > 0) {
      context_.event(trial_row_, "collect", "processes were left after the job and have been killed",
                     {{"count", killed}});
    }
  }
  flush();
  store_results(nodes);
}

}  // namespace virtrain::harness
