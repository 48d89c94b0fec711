#include "harness/trial/trial_run.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/range/distance.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/system/time.h"
#include "common/text/units.h"
#include "harness/hosts/travel_bundle.h"
#include "harness/job/programs.h"
#include "harness/trial/gather_evidence.h"
#include "harness/trial/node_setup.h"
#include "harness/trial/offload.h"
#include "harness/trial/trial_records.h"
#include "vmctl/api/payload.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds telemetry_period{1'000};
/// mpirun, its daemons and MPI_Init; a guest under TCG that shares its core needs most of it.
constexpr milliseconds place_deadline{120'000};
/// Deadlines of an aggressor, to work at its level, and to end when told to.
constexpr milliseconds level_deadline{30'000};
constexpr milliseconds stop_deadline{30'000};

ByHost<std::vector<std::string>> device_addresses(const Placement& placement) {
  ByHost<std::vector<std::string>> by_host;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) {
      for (const auto& device : vmctl::devices_of(node)) {
        by_host[node.host].push_back(device.grant.address);
      }
    }
  }
  return by_host;
}

std::string words_of_sample(const protocol::Sample& sample, const Workload& workload) {
  return fmt::format("step {} of {}, {} images/s a rank", sample.step, workload.steps,
                     figure_words(static_cast<double>(sample.images) / sample.seconds));
}

asio::awaitable<void> take_environment(LiveTrial& trial, const LiveTenant& tenant, const TrialNode& node,
                                       std::map<std::string, std::string>& into) {
  into = co_await gpu_environment(trial, tenant, node);
}

/// The first of the ports at which tenants' torchrun ranks meet: slices without namespaces share them.
constexpr int first_rendezvous_port = 29'500;

/// Words that put a command into its node's payload, or keep a machine's own programs from finding our
/// libraries.
std::vector<std::string> entry_of(const LiveNode& node) {
  const auto& made = node.made;
  auto words = node.machine ? outside_bundle() : std::vector<std::string>();
  if (!made.payload_folder.empty()) {
    words.insert(words.end(), {made.programs.at(vmctl::payload_program), made.payload_folder});
  }
  return words;
}

std::string words_of_figure(const JobFigure& figure, const std::string& unit) {
  return fmt::format("{} {}", figure_words(figure.value), unit);
}

}  // namespace

std::string TrialRun::throughput_words() const {
  const std::string unit = trial_.placement.tenants[0].unit();
  return trial_.throughput > 0 ? fmt::format("{:.2f} {}", trial_.throughput, unit)
                               : fmt::format("no figure in {}", unit);
}

TrialRun::TrialRun(RunContext& context, const PlannedTrial& planned, std::int64_t trial_row,
                   KnownPlans& plans)
    : trial_{context, planned, context.plan.placements[planned.placement], trial_row, plans} {}

TrialRun::~TrialRun() {
  for (auto& tenant : trial_.tenants) {
    if (tenant.stress) { tenant.stress->on_failure = nullptr; }
  }
  for (auto& agent : watched_) {
    agent->on_lost = nullptr;
    agent->on_telemetry = nullptr;
  }
}

void TrialRun::enter(const std::string& stage) {
  trial_.stage = stage;
  trial_.event("stage " + stage);
  if (trial_.context.progress) { trial_.context.progress(stage); }
}

milliseconds TrialRun::time_left() const {
  return milliseconds(std::max<std::int64_t>(1, (deadline_ns_ - monotonic_ns()) / 1'000'000));
}

void TrialRun::flush() {
  store_new_rows(trial_);
}

asio::awaitable<void> TrialRun::run(LiveNodes& nodes, bool nodes_are_up) {
  std::optional<Error> failure;
  try {
    co_await go_through_stages(nodes, nodes_are_up);
    co_return;
  } catch (const Error& error) { failure = error; }
  if (lost_ == nullptr || failure->code() == ErrorCode::interrupted) { throw Error(*failure); }
  const auto words = co_await last_words_of(trial_.context, *lost_);
  console_tail_ = words.console;
  throw Error(failure->operation(), failure->code(), failure->message() + words.hypervisor);
}

asio::awaitable<void> TrialRun::go_through_stages(LiveNodes& nodes, bool nodes_are_up) {
  save_tenants(trial_);
  if (!nodes_are_up) { co_await bring_up(nodes); }
  take_nodes(nodes);
  co_await prepare();
  enter("place");
  co_await place();
  enter("barrier");
  co_await barrier();
  enter("run");
  co_await measure();
  enter("collect");
  co_await collect();
}

// --- stages

asio::awaitable<void> TrialRun::bring_up(LiveNodes& nodes) {
  enter("define");
  co_await nodes.define();
  enter("boot");
  co_await nodes.boot();
  enter("agent");
  co_await nodes.reach_agents();
  if (trial_.placement.is_attached) { co_await look_at_machines(trial_, nodes); }
}

void TrialRun::take_nodes(LiveNodes& nodes) {
  deadline_ns_ = monotonic_ns() + trial_.context.scenario.trial_timeout_ns;
  for (auto& live : nodes.nodes()) { trial_.tenants[live.made.tenant].nodes.push_back({live}); }
  save_nodes(trial_);
  for (auto& tenant : trial_.tenants) {
    for (auto& node : tenant.nodes) { watch(node); }
  }
}

void TrialRun::watch(TrialNode& node) {
  auto& live = node.live;
  watched_.push_back(live.agent);
  live.agent->on_lost = [this, &live](const std::string& reason) {
    if (lost_ == nullptr) { lost_ = &live; }
    fail_jobs(fmt::format("node {} ({}) is lost: {}", live.agent->node(), live.made.name, reason));
  };
  live.agent->on_telemetry = [&node](const std::map<std::string, double>& readings, std::int64_t t_ns) {
    for (const auto& [metric, value] : readings) { node.telemetry.push_back({t_ns, "guest", metric, value}); }
  };
}

void TrialRun::fail_jobs(const std::string& words) {
  for (auto& tenant : trial_.tenants) {
    if (tenant.job) { tenant.job->fail(words); }
  }
}

asio::awaitable<void> TrialRun::prepare() {
  co_await look_at_guest_devices(trial_);
  for (auto& tenant : trial_.tenants) { co_await make_job(tenant); }
  co_await give_plans_to(trial_);
  if (trial_.planned.pair == 1 && !trial_.context.scenario.probes.empty()) {
    if (trial_.context.progress) { trial_.context.progress("probes"); }
    co_await probe_nodes(trial_);
    deadline_ns_ = monotonic_ns() + trial_.context.scenario.trial_timeout_ns;
  }
  if (std::ranges::any_of(trial_.context.scenario.probes, is_rank_probe)) {
    if (trial_.context.progress) { trial_.context.progress("collectives"); }
    co_await probe_ranks(trial_);
    deadline_ns_ = monotonic_ns() + trial_.context.scenario.trial_timeout_ns;
  }
  co_await look_at_licences(trial_, &TrialNode::licensed_at_start);
}

asio::awaitable<void> TrialRun::make_job(LiveTenant& tenant) {
  std::vector<std::map<std::string, std::string>> environments(tenant.nodes.size());
  std::vector<asio::awaitable<void>> queries;
  for (std::size_t n = 0; n < environments.size(); ++n) {
    queries.push_back(take_environment(trial_, tenant, tenant.nodes[n], environments[n]));
  }
  co_await together(std::move(queries));
  std::vector<JobNode> job_nodes;
  for (std::size_t n = 0; n < environments.size(); ++n) {
    const auto& node = tenant.nodes[n];
    const auto& made = node.live.made;
    job_nodes.push_back({.hostname = node.live.placement->hostname,
                         .agent = node.live.agent,
                         .environment = std::move(environments[n]),
                         .load_file = made.load_file,
                         .temporary_folder = made.temporary_folder,
                         .interface = made.interface,
                         .address = made.address,
                         .placed = std::ssize(trial_.placements_of(tenant, node)),
                         .has_own_name = !trial_.is_shared() && !node.live.machine,
                         .reported_name = node.live.report.hostname.value_or(""),
                         .entry = entry_of(node.live)});
  }
  if (!tenant.trains()) {
    if (tenant.plan.neighbour->is_idle()) { co_return; }
    tenant.stress =
        std::make_shared<StressJob>(trial_.context.io, tenant.plan, std::move(job_nodes), trial_.context.mpi);
    tenant.stress->on_failure = [this](const std::string& words) { fail_jobs(words); };
    co_return;
  }
  const auto network = tenant.plan.ranks() == 1 ? RankNetwork::single_process
                       : job_nodes.size() == 1  ? RankNetwork::shared_memory
                                                : RankNetwork::tcp;
  if (tenant.runs_job()) {
    const int port = first_rendezvous_port + static_cast<int>(tenant.record.tenant_index);
    tenant.command =
        std::make_shared<CommandJob>(trial_.context.io, tenant.plan, std::move(job_nodes), network,
                                     trial_.placement.ranks_sleep, trial_.context.mpi, port);
    tenant.command->on_reading = [&tenant](const results::Figure& reading) {
      tenant.figures.push_back(reading);
    };
    tenant.command->on_figure = [this, &tenant](const JobFigure& figure) {
      if (trial_.context.progress) { trial_.context.progress(words_of_figure(figure, tenant.plan.unit())); }
    };
    tenant.job = tenant.command;
    co_return;
  }
  const auto trainer = std::make_shared<TrainerJob>(
      trial_.context.io, tenant.plan, std::move(job_nodes), network, trial_.placement.ranks_sleep,
      boost::distance(trial_.trainers()) > 1, trial_.context.mpi);
  trainer->fusion = fusion_rule(trial_, tenant);
  tenant.job = trainer;
  trainer->on_record = [this, &tenant](std::int64_t rank, const RankRecord& record) {
    take_record(tenant, rank, record);
    const auto* const sample = std::get_if<protocol::Sample>(&record.said);
    if (rank == 0 && sample != nullptr && trial_.context.progress) {
      trial_.context.progress(words_of_sample(*sample, tenant.plan.workload));
    }
  };
}

asio::awaitable<void> TrialRun::place() {
  const auto timeout = std::chrono::duration_cast<seconds>(time_left()) + seconds(1);
  for (auto& tenant : trial_.trainers()) {
    std::string trainer;
    if (!tenant.runs_job()) {
      trainer = tenant.nodes[0].live.made.programs.at(trainer_name(tenant.plan.workload.backend));
    }
    co_await tenant.job->launch(trainer, timeout);
  }
  for (auto& tenant : trial_.trainers()) {
    co_await tenant.job->wait_for_hello(std::min(place_deadline, time_left()));
  }
  for (auto& tenant : trial_.tenants) {
    if (!tenant.stress) { continue; }
    const auto& program = tenant.nodes[0].live.made.programs.at(stress_program);
    co_await tenant.stress->launch(program, std::min(place_deadline, time_left()));
  }
}

asio::awaitable<void> TrialRun::barrier() {
  auto& context = trial_.context;
  for (auto& tenant : trial_.trainers()) { co_await tenant.job->wait_for_ready(time_left()); }
  co_await take_plans_from(trial_);
  if (context.scenario.settle_ns > 0) {
    asio::steady_timer settle(context.io, std::chrono::nanoseconds(context.scenario.settle_ns));
    co_await settle.async_wait(asio::use_awaitable);
  }
  for (auto& tenant : trial_.tenants) {
    for (auto& node : tenant.nodes) {
      auto& agent = *node.live.agent;
      co_await agent.synchronize_clock(8);
      node.record.clock_offset_ns = agent.clock().offset_ns;
      node.record.clock_uncertainty_ns = agent.clock().uncertainty_ns;
      co_await agent.start_telemetry(telemetry_period, node.live.made.counted_cores);
    }
  }
  co_await read_first_counters(trial_);
  if (!trial_.placement.is_attached) {
    const auto addresses = device_addresses(trial_.placement);
    co_await context.hosts.ask(&RunHosts::watch_devices, addresses);
  }
  for (auto& tenant : trial_.tenants) {
    if (tenant.stress) { co_await tenant.stress->reach_level(std::min(level_deadline, time_left())); }
  }
}

asio::awaitable<void> TrialRun::measure() {
  trial_.context.store.set_trial_started(trial_.row, iso8601(wall_ns()));
  std::exception_ptr failure;
  const auto train = [&]() -> asio::awaitable<void> {
    try {
      // One after the other without waiting in between: the spread is measured from the ranks' own first
      // steps.
      for (auto& tenant : trial_.trainers()) { co_await tenant.job->go(); }
      // Results come after the later steps, which begin while the stressors end.
      for (auto& tenant : trial_.trainers()) { co_await tenant.job->wait_for_counted_steps(time_left()); }
      for (auto& tenant : trial_.tenants) {
        if (tenant.stress) { co_await tenant.stress->stop(std::min(stop_deadline, time_left())); }
      }
      trial_.stressors_ended_ns = monotonic_ns();
      for (auto& tenant : trial_.trainers()) { co_await tenant.job->wait_for_results(time_left()); }
    } catch (...) { failure = std::current_exception(); }
  };
  co_await (train() || poll() || watch_clock());
  note_standstill();
  if (failure) { std::rethrow_exception(failure); }
}

asio::awaitable<void> TrialRun::poll() {
  asio::steady_timer timer(trial_.context.io);
  std::string refused;
  while (refused.empty()) {
    timer.expires_after(telemetry_period);
    co_await timer.async_wait(asio::use_awaitable);
    try {
      flush();
      co_await look_from_host(trial_);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) { throw; }
      refused = error.what();
    }
  }
  fail_jobs(refused);
  timer.expires_at(asio::steady_timer::time_point::max());  // the failed jobs end the trial, this must not
  co_await timer.async_wait(asio::use_awaitable);
}

asio::awaitable<void> TrialRun::watch_clock() {
  constexpr milliseconds period{250};
  asio::steady_timer timer(trial_.context.io);
  while (true) {
    timer.expires_after(period);
    clock_due_ = timer.expiry();
    co_await timer.async_wait(asio::use_awaitable);
    note_standstill();
  }
}

void TrialRun::note_standstill() {
  const std::chrono::nanoseconds late = std::chrono::steady_clock::now() - clock_due_;
  trial_.longest_standstill_ns = std::max<std::int64_t>(trial_.longest_standstill_ns, late.count());
}

asio::awaitable<void> TrialRun::collect() {
  co_await ask_hosts(trial_);
  co_await read_last_counters(trial_);
  co_await look_at_licences(trial_, &TrialNode::licensed_at_end);
  for (auto& tenant : trial_.trainers()) {
    const auto killed = co_await tenant.job->sweep();
    if (killed > 0) {
      trial_.context.event(trial_.row, "collect", "processes were left after the job and have been killed",
                           {.count = killed});
    }
  }
  flush();
  store_results(trial_);
}

}  // namespace virtrain::harness
