#include "harness/experiment/experiment.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <random>
#include <set>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/version.h"
#include "harness/experiment/judge.h"
#include "harness/experiment/pair_looks.h"
#include "harness/experiment/stop_signals.h"
#include "harness/hosts/host_client.h"
#include "harness/job/programs.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/node_group.h"
#include "harness/rules/uniformity.h"
#include "harness/security/searched_nodes.h"
#include "harness/security/security_run.h"
#include "harness/trial/trial_run.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;

/// Runs the trials of one experiment, one after the other.
class Runner {
 public:
  Runner(RunContext& context, const ExperimentOptions& options)
      : context_(context),
        options_(options),
        looks_(context.scenario, context.store, context.experiment),
        remaining_(context.plan) {}

  asio::awaitable<void> run(ExperimentOutcome& outcome);

 private:
  asio::awaitable<void> run_trial(const PlannedTrial& planned, ExperimentOutcome& outcome);
  asio::awaitable<void> prepare_image(std::int64_t trial, const std::string& image);
  asio::awaitable<void> bind_devices(TrialRun& trial, const PlannedTrial& planned);
  asio::awaitable<void> give_devices_back(std::optional<std::int64_t> row);
  asio::awaitable<std::vector<std::string>> end_lending();
  asio::awaitable<std::exception_ptr> attempt(TrialRun& trial, const PlannedTrial& planned, LiveNodes& nodes,
                                              std::int64_t row, bool nodes_are_up);
  asio::awaitable<void> tear_down(std::unique_ptr<LiveNodes>& nodes, std::optional<std::int64_t> row);
  asio::awaitable<void> search_for_leaks(ExperimentOutcome& outcome);
  void flush_after_failure(TrialRun& trial);
  bool may_keep_nodes(const PlannedTrial& planned) const;
  bool is_not_needed(const PlannedTrial& planned, ExperimentOutcome& outcome);
  bool is_of_case(std::size_t placement, const PlannedTrial& planned) const;
  bool has_failed_fast(const ExperimentOutcome& outcome) const {
    return options_.fail_fast && outcome.failed > 0;
  }
  void record_end(std::int64_t row, const TrialRun& trial, const std::exception_ptr& failure,
                  ExperimentOutcome& outcome);
  results::Trial trial_record(const PlannedTrial& planned) const;
  void say(const PlannedTrial& planned, const std::string& line) const;

  RunContext& context_;
  const ExperimentOptions& options_;
  KnownPlans plans_;
  PairLooks looks_;
  RemainingTime remaining_;
  std::string image_;  ///< that VMs boot now: arms may differ in it
  std::int64_t began_ns_ = monotonic_ns(), trial_began_ns_ = 0;
  std::unique_ptr<LiveNodes> nodes_;  ///< of the present trial
  std::unique_ptr<LiveNodes> kept_;   ///< VMs that wait for their case's next trial (reuse: case)
  std::size_t kept_placement_ = 0;
  std::set<std::string> told_;  ///< cases that have enough pairs
};

results::Trial Runner::trial_record(const PlannedTrial& planned) const {
  const auto& placement = context_.plan.placements[planned.placement];
  const auto& first = placement.tenants[0];
  results::Trial trial;
  trial.experiment = context_.experiment;
  trial.order = planned.order;
  trial.case_name = placement.case_name;
  trial.arm = planned.arm;
  trial.case_key = placement.key;
  const auto& arms = context_.plan.arms;
  const auto arm = std::ranges::find(arms, planned.arm, &Arm::name);
  if (arm != arms.end()) { trial.arm_key = arm->key(); }
  trial.pair = planned.pair;
  trial.nodes = placement.training_nodes();
  trial.gpus_per_node = first.gpus_per_node;
  trial.ranks_per_node = first.ranks_per_node;
  if (uses_setting(first.workload, "batch_size")) { trial.batch_size = first.workload.batch_size; }
  if (uses_setting(first.workload, "precision")) { trial.precision = to_string(first.workload.precision); }
  if (!first.runs_job()) { trial.backend = to_string(first.workload.backend); }
  if (placement.is_attached) {
    trial.virtualization.clear();  // until its machines have told it
  } else if (!runs_in_vms(planned.base)) {
    trial.virtualization = to_string(Virtualization::none);
  } else if (context_.virtualization) {
    trial.virtualization = to_string(*context_.virtualization);
  }
  trial.oversubscribed = placement.oversubscribed;
  trial.started_at = iso8601(wall_ns());
  return trial;
}

void Runner::say(const PlannedTrial& planned, const std::string& line) const {
  if (!options_.progress) { return; }
  const auto now_ns = monotonic_ns();
  const auto elapsed_seconds = static_cast<double>(now_ns - trial_began_ns_) * 1e-9;
  options_.progress(
      {fmt::format("[{}/{}] {} {}, pair {}", planned.order, context_.plan.trials.size(),
                   context_.plan.placements[planned.placement].case_name, planned.arm, planned.pair),
       line, began_ns_, now_ns, remaining_.seconds_left(planned, elapsed_seconds)});
}

/// Grants of all the plan's trials.
ByHost<std::vector<vmctl::DeviceGrant>> all_grants(const RunContext& context) {
  ByHost<std::vector<vmctl::DeviceGrant>> all;
  for (const auto& placement : context.plan.placements) {
    for (auto& [host, grants] : grants_of(placement, context.experiment)) {
      std::ranges::move(grants, std::back_inserter(all[host]));
    }
  }
  return all;
}

/// Stage bind: the trial's devices are where its arm needs them. Adjacent trials of one arm find them so.
asio::awaitable<void> Runner::bind_devices(TrialRun& trial, const PlannedTrial& planned) {
  const auto all = all_grants(context_);
  if (all.empty()) { co_return; }
  trial.enter("bind");
  auto& hosts = context_.hosts;
  // For whichever trial comes first: what a service does to the GPUs or takes of the CPU would else be in the
  // trials before the first VM with devices and not in those after it.
  co_await hosts.ask(&RunHosts::keep_services_away, all);
  const auto grants = grants_of(context_.plan.placements[planned.placement], context_.experiment);
  if (grants.empty()) { co_return; }
  const std::int64_t began_ns = monotonic_ns();
  const auto& devices = context_.plan.placements[planned.placement].devices;
  if (runs_in_vms(planned.base)) {
    const auto cards = settings_of_cards(devices);
    const auto count = co_await hosts.ask(&RunHosts::lend, grants, cards);
    context_.event(trial.row(), "bind", "devices assigned",
                   {.count = count, .seconds = static_cast<double>(monotonic_ns() - began_ns) * 1e-9});
    co_return;
  }
  co_await give_devices_back(trial.row());
  if (!devices.settings.empty()) { co_await hosts.ask(&RunHosts::set, grants, devices.settings); }
}

asio::awaitable<void> Runner::give_devices_back(std::optional<std::int64_t> row) {
  const auto failures = co_await context_.hosts.ask(&RunHosts::give_back);
  if (failures.empty()) { co_return; }
  context_.event(row, "bind", "devices could not be given back", {.failures = failures});
  throw Error("give the devices back", ErrorCode::host_unable, join(failures, "; "));
}

/// Stage image: libvirt answers, the guest image exists, and a probe has shown whether KVM works.
asio::awaitable<void> Runner::prepare_image(std::int64_t trial, const std::string& wanted) {
  if (context_.virtualization && image_ == wanted) { co_return; }
  const vmctl::ImageSpec spec{
      wanted, lends_nvidia_devices(context_.plan), {}, context_.scenario.guest.packages};
  const auto began_ns = monotonic_ns();
  const auto image = co_await context_.hosts.ask(&RunHosts::make_image, spec);
  const auto took_ns = monotonic_ns() - began_ns;
  trial_began_ns_ += took_ns;  // what comes once says nothing of trials to come
  remaining_.has_image();
  context_.event(trial, "image", "guest image ready",
                 {.reason = image.reason,
                  .seconds = static_cast<double>(took_ns) * 1e-9,
                  .hash = image.hash,
                  .kernel = image.kernel,
                  .boots = image.boots,
                  .from_cache = image.from_cache,
                  .virtualization = image.virtualization});
  results::Fingerprint packages;
  for (const auto& [name, version] : image.packages) { packages["package." + name] = version; }
  context_.store.add_host_facts(context_.experiment, packages);
  context_.virtualization = image.virtualization;
  image_ = wanted;
}

/// Runs the trial unless a stop comes first; returns what failed, null if nothing did.
asio::awaitable<std::exception_ptr> Runner::attempt(TrialRun& trial, const PlannedTrial& planned,
                                                    LiveNodes& nodes, std::int64_t row, bool nodes_are_up) {
  std::exception_ptr failure;
  const auto work = [&]() -> asio::awaitable<void> {
    try {
      if (runs_in_vms(planned.base)) {
        if (!context_.virtualization) { trial.enter("image"); }
        co_await prepare_image(row, context_.plan.placements[planned.placement].guest.image);
        context_.store.set_trial_virtualization(row, to_string(*context_.virtualization));
      }
      if (!nodes_are_up) { co_await bind_devices(trial, planned); }
      co_await trial.run(nodes, nodes_are_up);
    } catch (...) { failure = std::current_exception(); }
  };
  co_await (work() || context_.stop.wait());
  co_return failure;
}

bool Runner::may_keep_nodes(const PlannedTrial& planned) const {
  if (context_.scenario.reuse != Reuse::experiment_case || !runs_in_vms(planned.base)) { return false; }
  const auto& trials = context_.plan.trials;
  for (auto next = static_cast<std::size_t>(planned.order); next < trials.size(); ++next) {
    if (trials[next].placement == planned.placement && runs_in_vms(trials[next].base)) { return true; }
  }
  return false;
}

asio::awaitable<void> Runner::tear_down(std::unique_ptr<LiveNodes>& nodes, std::optional<std::int64_t> row) {
  if (!nodes) { co_return; }
  context_.event(row, "tear_down", "stage tear_down");
  const auto left = co_await nodes->tear_down();
  nodes.reset();
  if (left.empty()) { co_return; }
  log::warning(something_is_left, {{"left", left}});
  context_.event(row, "tear_down", something_is_left, {.left = left});
}

void Runner::record_end(std::int64_t row, const TrialRun& trial, const std::exception_ptr& failure,
                        ExperimentOutcome& outcome) {
  if (!failure) {
    ++outcome.finished;
    if (trial.invalid().empty()) { return; }
    ++outcome.invalid;
    log::warning("trial is invalid and does not count", {{"trial", row}, {"reason", trial.invalid()}});
    return;
  }
  if (context_.stop.requested()) {
    context_.store.interrupt_trial(row, iso8601(wall_ns()));
    return;
  }
  std::string reason;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) { reason = error.what(); }
  ++outcome.failed;
  if (outcome.first_failure.empty()) { outcome.first_failure = reason; }
  log::error("trial failed", {{"trial", row}, {"stage", trial.stage()}, {"reason", reason}});
  context_.event(row, trial.stage(), "trial failed", {.reason = reason});
  context_.store.fail_trial(row, {trial.stage(), reason, trial.console_tail()}, iso8601(wall_ns()));
}

/// Stores the measurements from before the fault, which count. A row that the schema refuses ends no
/// experiment.
void Runner::flush_after_failure(TrialRun& trial) {
  std::string refusal;
  try {
    trial.flush();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::trial_failed) { throw; }
    refusal = error.what();
  }
  if (!refusal.empty()) {
    context_.event(trial.row(), trial.stage(), "measured values were refused", {.reason = refusal});
  }
}

asio::awaitable<void> Runner::run_trial(const PlannedTrial& planned, ExperimentOutcome& outcome) {
  const std::int64_t row = context_.store.begin_trial(trial_record(planned));
  context_.progress = [this, &planned](const std::string& line) { say(planned, line); };
  trial_began_ns_ = monotonic_ns();
  const bool in_vms = runs_in_vms(planned.base);
  const bool are_kept = kept_ && in_vms && kept_placement_ == planned.placement;
  if (are_kept && kept_->is_lost()) {
    context_.event(row, "boot", "a VM that was kept for this trial has ended, and another is booted");
  }
  const bool reused = are_kept && !kept_->is_lost();
  if (in_vms && !reused) { co_await tear_down(kept_, row); }
  if (reused) {
    nodes_ = std::move(kept_);
  } else {
    nodes_ = std::make_unique<LiveNodes>(context_, context_.plan.placements[planned.placement], planned.base);
  }

  TrialRun trial(context_, planned, row, plans_);
  std::exception_ptr failure = co_await attempt(trial, planned, *nodes_, row, reused);
  std::exception_ptr storage_failure;
  try {
    if (failure) { flush_after_failure(trial); }
    record_end(row, trial, failure, outcome);
    if (!failure) { say(planned, trial.throughput_words()); }
  } catch (...) { storage_failure = std::current_exception(); }
  if (!failure && !storage_failure && may_keep_nodes(planned)) {
    kept_ = std::move(nodes_);
    kept_placement_ = planned.placement;
  } else {
    try {
      co_await tear_down(nodes_, row);
    } catch (...) {
      if (!storage_failure) { storage_failure = std::current_exception(); }
    }
  }
  remaining_.finished(planned, static_cast<double>(monotonic_ns() - trial_began_ns_) * 1e-9);
  if (storage_failure) { std::rethrow_exception(storage_failure); }
}

/// Returns what could not be given back; that is in quarantine, and no later run gets it.
asio::awaitable<std::vector<std::string>> Runner::end_lending() {
  auto failures = co_await context_.hosts.ask(&RunHosts::end_lending);
  if (!failures.empty()) {
    log::error("devices could not be given back and are in quarantine; see virtrain clean",
               {{"failures", failures}});
    context_.event(std::nullopt, "tear_down", "devices could not be given back", {.failures = failures});
  }
  co_return failures;
}

/// The decision is logged and stored once for each case.
bool Runner::is_not_needed(const PlannedTrial& planned, ExperimentOutcome& outcome) {
  const auto& case_name = context_.plan.placements[planned.placement].case_name;
  const auto& reason = looks_.reason_against(case_name, planned.pair);
  if (reason.empty()) { return false; }
  if (told_.insert(case_name).second) {
    say(planned, reason);
    outcome.ended_early.push_back(case_name + ": " + reason);
    context_.event(std::nullopt, "pairs", "no more pairs", {.reason = reason, .case_name = case_name});
  }
  return true;
}

bool Runner::is_of_case(std::size_t placement, const PlannedTrial& planned) const {
  const auto& placements = context_.plan.placements;
  return placements[placement].case_name == placements[planned.placement].case_name;
}

/// On nodes of their own, when the trials' are gone.
asio::awaitable<void> Runner::search_for_leaks(ExperimentOutcome& outcome) {
  if (context_.plan.security.empty() || context_.stop.requested() || has_failed_fast(outcome)) { co_return; }
  double estimate = 0;
  for (const auto& arm : context_.plan.security) { estimate += arm.lacks.empty() ? arm.estimate_seconds : 0; }
  context_.progress = [this, estimate, security_began_ns = monotonic_ns()](const std::string& line) {
    if (!options_.progress) { return; }
    const auto now_ns = monotonic_ns();
    const double left = estimate - static_cast<double>(now_ns - security_began_ns) * 1e-9;
    options_.progress(
        {"security", line, began_ns_, now_ns, unproven(std::max(0.0, left), true, context_.plan.emulated)});
  };
  const auto failed = co_await run_security(context_, options_.security);
  outcome.failed += failed;
  if (failed > 0 && outcome.first_failure.empty()) { outcome.first_failure = "leak searches failed"; }
}

asio::awaitable<void> Runner::run(ExperimentOutcome& outcome) {
  std::exception_ptr failure;
  try {
    for (const auto& planned : context_.plan.trials) {
      if (context_.stop.requested()) { break; }
      if (is_not_needed(planned, outcome)) {
        if (kept_ && is_of_case(kept_placement_, planned)) { co_await tear_down(kept_, std::nullopt); }
        continue;
      }
      co_await run_trial(planned, outcome);
      if (has_failed_fast(outcome)) { break; }
    }
  } catch (...) { failure = std::current_exception(); }
  for (auto* nodes : {&nodes_, &kept_}) {
    if (!*nodes) { continue; }
    const auto left = co_await (*nodes)->tear_down();
    if (!left.empty()) { log::warning(something_is_left, {{"left", left}}); }
    nodes->reset();
  }
  if (!failure) {
    try {
      co_await search_for_leaks(outcome);
    } catch (...) { failure = std::current_exception(); }
  }
  for (const auto& left : co_await end_lending()) {
    ++outcome.failed;
    if (outcome.first_failure.empty()) { outcome.first_failure = left; }
  }
  if (failure) { std::rethrow_exception(failure); }
}

/// Runs the trials of the context's plan, one after the other, each stored when it ends; then tears down
/// whatever is left and gives the devices back. Throws what no further trial could survive.
asio::awaitable<void> run_trials(RunContext& context, const ExperimentOptions& options,
                                 ExperimentOutcome& outcome) {
  Runner runner(context, options);
  co_await runner.run(outcome);
}

using namespace asio::experimental::awaitable_operators;

constexpr std::chrono::seconds busy_retry_period{2};

std::string make_experiment_id() {
  std::random_device device;
  return fmt::format("{:%Y%m%dt%H%M%S}-{:06x}",
                     fmt::gmtime(static_cast<std::time_t>(wall_ns() / 1'000'000'000)), device() & 0xffffff);
}

results::Experiment experiment_record(const Scenario& scenario, const Plan& plan,
                                      const ExperimentOptions& options, const std::string& id,
                                      const ByHost<HostFacts>& facts) {
  results::Experiment record;
  record.id = id;
  record.scenario = scenario.name;
  record.scenario_text = scenario.text;
  record.label = options.label;
  record.started_at = iso8601(wall_ns());
  record.virtrain_version = virtrain_version;
  record.command_line = options.command_line;
  record.plan = to_json(plan);
  record.fingerprint = common_facts(facts);
  if (facts.size() == 1) {
    record.host_name = record.fingerprint["hostname"];
    record.boot_id = record.fingerprint["boot_id"];
  } else {  // the run's place: boots are the nodes' facts
    std::vector<std::string> names;
    for (const auto& [host, said] : facts) { names.push_back(host); }
    record.host_name = join(names, ", ");
  }
  return record;
}

/// Goes on with the loop until the work has ended; returns or throws what that does.
template <typename Result>
Result run_to_end(asio::io_context& io, asio::awaitable<Result> work) {
  auto result = asio::co_spawn(io, std::move(work), asio::use_future);
  io.restart();
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) { io.run_one(); }
  return result.get();
}

/// Takes the plan's cores and devices; with `wait`, again and again until they are free. False if a stop came
/// first. The id is told before the first word about waiting, and not at all where the resources are refused.
asio::awaitable<bool> acquire(RunContext& context, const ExperimentOptions& options) {
  bool told = false;
  std::string waits_for;
  const auto tell_id = [&] {
    if (!told && options.on_id) { options.on_id(context.experiment); }
    told = true;
  };
  const auto resources = resources_of(context.plan);
  while (true) {
    try {
      co_await context.hosts.ask(&RunHosts::acquire, resources);
      tell_id();
      co_return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::busy || !options.wait) { throw; }
      tell_id();
      if (error.message() != waits_for) { log::info("waiting", {{"for", error.message()}}); }
      waits_for = error.message();
    }
    asio::steady_timer again(context.io, busy_retry_period);
    co_await (again.async_wait(asio::use_awaitable) || context.stop.wait());
    if (context.stop.requested()) { co_return false; }
  }
}

/// mpirun of one node starts its daemons on the others, which must be of its own version.
void require_one_mpi(const ByHost<HostFacts>& facts) {
  for (const auto& difference : differences_of(facts)) {
    if (difference.field != "open_mpi") { continue; }
    throw Error("begin a run over several hosts", ErrorCode::host_unable,
                to_sentence(difference) + " (install one version of Open MPI on all)");
  }
}

/// Each host's copy of a job's payload, which must be the same on all.
asio::awaitable<void> take_payloads(RunContext& context) {
  const auto paths = payload_paths(context.plan);
  for (const auto& [path, of_hosts] : paths) {
    context.payloads[path] = co_await context.hosts.ask(&RunHosts::take_payload, path, of_hosts);
  }
}

/// False if a stop came before the host's resources were free: nothing has begun then.
asio::awaitable<bool> begin_experiment(RunContext& context, const vmctl::RunSpec& run,
                                       const ExperimentOptions& options) {
  co_await context.hosts.ask(&RunHosts::begin, run);
  if (!co_await acquire(context, options)) { co_return false; }
  const auto facts = co_await context.hosts.ask(&RunHosts::fingerprints);
  require_one_mpi(facts);
  co_await take_payloads(context);
  auto record = experiment_record(context.scenario, context.plan, options, context.experiment, facts);
  for (auto [host, said] : facts) { context.boot_ids.insert(said["boot_id"]); }
  if (const auto found = record.fingerprint.find("open_mpi"); found != record.fingerprint.end()) {
    context.mpi = mpi_dialect(found->second);
  }
  if (is_all_attached(context.scenario)) {  // its nodes are not of this host
    record.fingerprint.clear();
    record.boot_id.clear();
    record.host_name = place_of(context.plan, {});
  }
  context.store.add_experiment(record);
  for (const auto& difference : differences_of(facts)) {
    const auto words = to_sentence(difference);
    log::warning("hosts are not alike", {{"difference", words}});
    context.event(std::nullopt, "begin", "hosts are not alike", {.reason = words});
  }
  co_return true;
}

/// The last words in the database; false: it takes none any more.
bool end_in_database(RunContext& context, const ExperimentOutcome& outcome) {
  const bool stopped = outcome.stop_signal != 0;
  const bool failed = outcome.aborted_by.has_value() || outcome.failed > 0;
  const auto status = stopped ? Status::interrupted : failed ? Status::failed : Status::finished;
  try {
    if (outcome.aborted_by) {
      context.store.mark_interrupted(context.experiment);
    } else {
      context.store.end_experiment(context.experiment, status, iso8601(wall_ns()));
    }
    return true;
  } catch (const Error& error) {
    log::error(
        "the end of the experiment could not be stored; when the database can be written: virtrain clean",
        {{"reason", error.what()}});
    return false;
  }
}

}  // namespace

std::string label_fault(const std::string& label) {
  constexpr std::size_t longest_label_bytes = 1000;  // as import takes
  if (find_invalid_utf8(label) != std::string::npos) { return "a label is UTF-8, these bytes are not"; }
  return label.size() > longest_label_bytes ? "a label has at most 1000 bytes" : "";
}

ExperimentOutcome run_experiment(RunHosts& hosts, const Scenario& scenario, const Plan& planned,
                                 const std::filesystem::path& database, const ExperimentOptions& options) {
  ExperimentOutcome outcome;
  outcome.experiment = make_experiment_id();
  asio::io_context io;
  auto plan = planned;
  give_addresses(plan, outcome.experiment);
  constexpr std::size_t threads_of_one_host = 4;
  asio::thread_pool pool(std::max(threads_of_one_host, hosts.size() + 2));
  StopSource stop(io);
  const LoopThread this_thread;
  // Until the database is open, which may be waited for, a signal ends this process at once.
  end_at_once_on_stop_signals();
  results::Store store(database, results::Store::Mode::create, longest_database_wait);
  asio::signal_set signals(io);
  add_stop_signals(signals);
  const std::function<void()> listen = [&] {
    signals.async_wait([&](const boost::system::error_code& cancelled, int signal_number) {
      if (cancelled) { return; }
      log::warning(stop.requested() ? "still tearing down" : "stopping; tearing down",
                   {{"signal", signal_number}});
      stop.request(signal_number);
      hosts.cancel();
      listen();
    });
  };
  listen();

  const vmctl::RunSpec run{outcome.experiment, std::filesystem::absolute(database).string(), options.mode,
                           options.may_change_host, needed_programs(scenario, plan)};
  RunContext context{io, pool, stop, store, {hosts, pool}, scenario, plan, outcome.experiment};
  if (!run_to_end(io, begin_experiment(context, run, options))) {
    outcome.stop_signal = stop.signal_number();
    return outcome;
  }
  try {
    run_to_end(io, run_trials(context, options, outcome));
  } catch (const Error& error) {
    outcome.aborted_by = after_begin(error).code();
    outcome.first_failure = error.what();
  } catch (const std::exception& error) {
    outcome.aborted_by = ErrorCode::io;
    outcome.first_failure = error.what();
  }
  outcome.stop_signal = stop.signal_number();
  if (outcome.aborted_by) { log::error("the experiment cannot go on", {{"reason", outcome.first_failure}}); }
  run_to_end(io, context.hosts.ask(&RunHosts::end, end_in_database(context, outcome)));
  return outcome;
}

}  // namespace virtrain::harness
