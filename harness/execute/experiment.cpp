#include "harness/execute/experiment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <random>
#include <set>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/time.h"
#include "common/version.h"
#include "harness/execute/trial_run.h"
#include "harness/plan/domain_spec.h"
#include "vmctl/guest_driver.h"
#include "vmctl/inventory.h"
#include "vmctl/kvm_probe.h"
#include "vmctl/libvirt_hypervisor.h"
#include "vmctl/paths.h"
#include "vmctl/supermin.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;

constexpr std::chrono::seconds kBusyRetryPeriod{2};

std::string make_experiment_id() {
  std::random_device device;
  return fmt::format("{:%Y%m%dt%H%M%S}-{:06x}",
                     fmt::gmtime(static_cast<std::time_t>(wall_ns() / 1'000'000'000)), device() & 0xffffff);
}

std::vector<std::string> resources_of(const Plan& plan) {
  std::set<std::string> names;
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        for (const int core : node.cores) names.insert(fmt::format("core:{}", core));
        for (const auto& address : node.device_addresses()) names.insert("device:" + address);
      }
    }
  }
  return {names.begin(), names.end()};
}

/// Runs the trials of one experiment, one after the other.
class Runner {
 public:
  Runner(RunContext& context, const ExperimentOptions& options) : context_(context), options_(options) {}

  asio::awaitable<void> run(ExperimentOutcome& outcome);

 private:
  asio::awaitable<void> run_trial(const PlannedTrial& planned, ExperimentOutcome& outcome);
  asio::awaitable<void> prepare_vm_host(std::int64_t trial);
  asio::awaitable<void> bind_devices(TrialRun& trial, const PlannedTrial& planned);
  asio::awaitable<void> give_devices_back(std::optional<std::int64_t> row);
  asio::awaitable<std::vector<std::string>> end_lending();
  asio::awaitable<std::exception_ptr> attempt(TrialRun& trial, const PlannedTrial& planned, NodeSet& nodes,
                                              std::int64_t row, bool nodes_are_up);
  asio::awaitable<void> tear_down(std::int64_t row);
  bool may_keep_nodes(const PlannedTrial& planned) const;
  void record_end(std::int64_t row, const TrialRun& trial, const std::exception_ptr& failure,
                  ExperimentOutcome& outcome);
  results::Trial trial_record(const PlannedTrial& planned) const;
  void say(const PlannedTrial& planned, const std::string& line) const;

  RunContext& context_;
  const ExperimentOptions& options_;
  PlanFile plans_;
  std::unique_ptr<NodeSet> nodes_;  ///< of the present trial, or kept for the next one (reuse: case)
  std::size_t kept_placement_ = 0;
};

results::Trial Runner::trial_record(const PlannedTrial& planned) const {
  const auto& placement = context_.plan.placements[planned.placement];
  const auto& first = placement.tenants[0];
  results::Trial trial;
  trial.experiment = context_.experiment;
  trial.order = planned.order;
  trial.case_name = placement.case_name;
  trial.arm = planned.arm;
  trial.pair = planned.pair;
  trial.nodes = placement.nodes();
  trial.gpus_per_node = first.gpus_per_node;
  trial.ranks_per_node = first.ranks_per_node;
  trial.batch_size = first.workload.batch_size;
  trial.precision = to_string(first.workload.precision);
  trial.backend = to_string(first.workload.backend);
  if (planned.arm != kArmVm)
    trial.virtualization = vmctl::to_string(vmctl::Virtualization::none);
  else if (context_.vm_host)
    trial.virtualization = vmctl::to_string(context_.vm_host->virtualization);
  trial.oversubscribed = placement.oversubscribed;
  trial.started_at = iso8601(wall_ns());
  return trial;
}

void Runner::say(const PlannedTrial& planned, const std::string& line) const {
  if (!options_.progress) return;
  options_.progress(fmt::format("[{}/{}] {} {} pair {}: {}", planned.order, context_.plan.trials.size(),
                                context_.plan.placements[planned.placement].case_name, planned.arm,
                                planned.pair, line));
}

std::vector<vmctl::DeviceGrant> grants_in(const Placement& placement, const HostNames& names) {
  std::vector<vmctl::DeviceGrant> grants;
  for (const auto& tenant : placement.tenants)
    for (const auto& node : tenant.nodes)
      for (auto& grant : grants_of(node, names)) grants.push_back(std::move(grant));
  return grants;
}

/// Of all the plan's trials.
std::vector<vmctl::DeviceGrant> all_grants(const RunContext& context) {
  std::vector<vmctl::DeviceGrant> grants;
  for (const auto& placement : context.plan.placements)
    for (auto& grant : grants_in(placement, HostNames{context.experiment, context.tag}))
      grants.push_back(std::move(grant));
  return grants;
}

/// Stage bind: the trial's devices are where its arm needs them. Adjacent trials of one arm find them so.
asio::awaitable<void> Runner::bind_devices(TrialRun& trial, const PlannedTrial& planned) {
  const auto all = all_grants(context_);
  if (all.empty()) co_return;
  trial.enter("bind");
  auto& lender = context_.lender;
  // For whichever trial comes first: what a service does to the GPUs or takes of the CPU would else be in the
  // trials before the first VM with devices and not in those after it.
  const auto keep_away = [&lender, all] { lender.keep_services_away(all); };
  co_await offload(context_.pool, keep_away);
  const auto grants =
      grants_in(context_.plan.placements[planned.placement], HostNames{context_.experiment, context_.tag});
  if (grants.empty()) co_return;
  const std::int64_t began_ns = monotonic_ns();
  if (planned.arm == kArmVm) {
    const auto lend = [&lender, grants] { return lender.lend(grants); };
    const auto count = co_await offload(context_.pool, lend);
    context_.event(trial.row(), "bind", "devices lent",
                   {{"count", count}, {"seconds", static_cast<double>(monotonic_ns() - began_ns) * 1e-9}});
    co_return;
  }
  co_await give_devices_back(trial.row());
  const auto& settings = context_.scenario.devices.settings;
  const auto set = [&lender, grants, &settings] { lender.set(grants, settings); };
  if (!settings.empty()) co_await offload(context_.pool, set);
}

asio::awaitable<void> Runner::give_devices_back(std::optional<std::int64_t> row) {
  auto& lender = context_.lender;
  const auto give_back = [&lender] { return lender.give_back(); };
  const auto failures = co_await offload(context_.pool, give_back);
  if (failures.empty()) co_return;
  context_.event(row, "bind", "devices could not be given back", {{"failures", failures}});
  throw Error("give the devices back", ErrorCode::host_unable, join(failures, "; "));
}

bool lends_nvidia_devices(const Plan& plan) {
  const auto is_nvidia = [](const auto& device) { return device.vendor == vmctl::kNvidia; };
  for (const auto& placement : plan.placements)
    for (const auto& tenant : placement.tenants)
      for (const auto& node : tenant.nodes)
        if (std::any_of(node.devices.begin(), node.devices.end(), is_nvidia)) return true;
  return false;
}

/// Stage image: libvirt answers, the guest image exists, and a probe has shown whether KVM works.
asio::awaitable<void> Runner::prepare_vm_host(std::int64_t trial) {
  if (context_.vm_host) co_return;
  VmHost host;
  const auto prepare = [&host, this] {
    if (const auto done = vmctl::fix_kvm_device(); !done.empty()) log::info(done);
    if (context_.connect_uri == "qemu:///system")
      host.daemon = std::make_unique<vmctl::LibvirtDaemon>(context_.connect_uri);
    host.hypervisor = vmctl::connect_libvirt(context_.connect_uri);
    vmctl::MirrorSpec spec;
    spec.files = {{context_.programs.agent, Programs::guest_agent},
                  {context_.programs.rsh, Programs::guest_rsh}};
    for (const auto& [backend, program] : context_.programs.trainers)
      spec.files.push_back({program, Programs::guest_trainer(backend)});
    if (!context_.scenario.probes.empty())
      spec.files.push_back({context_.programs.probe, Programs::guest_probe});
    spec.cache_dir = vmctl::cache_dir();
    if (lends_nvidia_devices(context_.plan)) {
      const auto driver = vmctl::find_guest_driver("/", vmctl::find_guest_kernel().version);
      if (driver) vmctl::carry_driver(spec, *driver);
    }
    host.image = vmctl::build_mirror_image(spec, [](std::string_view line) { log::info(line); });
    if (!context_.scenario.guest.is_mirror())
      host.cloud_image = vmctl::inspect_cloud_image(context_.scenario.guest.image);
    const auto verdict = vmctl::probe_kvm(host.image.kernel, spec.cache_dir);
    host.virtualization = verdict.virtualization;
    host.virtualization_reason = verdict.reason;
    host.hide_arch_capabilities =
        vmctl::hides_arch_capabilities(vmctl::load_machine(), host.hypervisor->versions().hypervisor);
  };
  co_await offload(context_.pool, prepare);
  context_.event(trial, "image", "guest image ready",
                 {{"hash", host.image.hash},
                  {"boots", host.cloud_image ? host.cloud_image->file.string() : "mirror"},
                  {"kernel", host.image.kernel_version},
                  {"from_cache", host.image.from_cache},
                  {"virtualization", vmctl::to_string(host.virtualization)},
                  {"reason", host.virtualization_reason}});
  context_.vm_host = std::move(host);
}

/// Runs the trial unless a stop comes first; returns what failed, null if nothing did.
asio::awaitable<std::exception_ptr> Runner::attempt(TrialRun& trial, const PlannedTrial& planned,
                                                    NodeSet& nodes, std::int64_t row, bool nodes_are_up) {
  std::exception_ptr failure;
  const auto work = [&]() -> asio::awaitable<void> {
    try {
      if (nodes.is_vm()) {
        if (!context_.vm_host) trial.enter("image");
        co_await prepare_vm_host(row);
        context_.store.set_trial_virtualization(row, vmctl::to_string(nodes.virtualization()));
      }
      if (!nodes_are_up) co_await bind_devices(trial, planned);
      co_await trial.run(nodes, nodes_are_up);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  co_await (work() || context_.stop.wait());
  co_return failure;
}

bool Runner::may_keep_nodes(const PlannedTrial& planned) const {
  if (context_.scenario.reuse != Reuse::experiment_case || planned.arm != kArmVm) return false;
  const auto& trials = context_.plan.trials;
  for (auto next = static_cast<std::size_t>(planned.order); next < trials.size(); ++next)
    if (trials[next].placement == planned.placement && trials[next].arm == kArmVm) return true;
  return false;
}

asio::awaitable<void> Runner::tear_down(std::int64_t row) {
  if (!nodes_) co_return;
  context_.event(row, "tear_down", "stage tear_down");
  const auto left = co_await nodes_->tear_down();
  nodes_.reset();
  if (left.empty()) co_return;
  context_.event(row, "tear_down", "something could not be removed; run: virtrain clean", {{"left", left}});
  log::warning("something could not be removed; run: virtrain clean", {{"left", left}});
}

void Runner::record_end(std::int64_t row, const TrialRun& trial, const std::exception_ptr& failure,
                        ExperimentOutcome& outcome) {
  if (!failure) {
    ++outcome.finished;
    return;
  }
  if (context_.stop.requested()) {
    context_.store.interrupt_trial(row, iso8601(wall_ns()));
    return;
  }
  std::string reason;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  ++outcome.failed;
  if (outcome.first_failure.empty()) outcome.first_failure = reason;
  log::error("trial failed", {{"trial", row}, {"stage", trial.stage()}, {"reason", reason}});
  context_.event(row, trial.stage(), "trial failed", {{"reason", reason}});
  context_.store.fail_trial(row, {trial.stage(), reason, trial.console_tail()}, iso8601(wall_ns()));
}

asio::awaitable<void> Runner::run_trial(const PlannedTrial& planned, ExperimentOutcome& outcome) {
  const std::int64_t row = context_.store.begin_trial(trial_record(planned));
  context_.progress = [this, &planned](const std::string& line) { say(planned, line); };
  const bool is_vm = planned.arm == kArmVm;
  const bool reused = nodes_ && is_vm && kept_placement_ == planned.placement;
  if (nodes_ && is_vm && !reused) co_await tear_down(row);
  auto kept = std::move(nodes_);  // VMs of this case wait while a bare-metal trial runs
  if (reused)
    nodes_ = std::move(kept);
  else
    nodes_ = std::make_unique<NodeSet>(context_, context_.plan.placements[planned.placement], planned.arm);

  TrialRun trial(context_, planned, row, plans_);
  std::exception_ptr failure = co_await attempt(trial, planned, *nodes_, row, reused);
  std::exception_ptr storage_failure;
  try {
    if (failure) trial.flush();  // what was measured before the fault counts
    record_end(row, trial, failure, outcome);
    if (!failure) say(planned, fmt::format("{:.2f} images/s", trial.images_per_second()));
  } catch (...) {
    storage_failure = std::current_exception();
  }
  if (!failure && !storage_failure && may_keep_nodes(planned)) {
    kept_placement_ = planned.placement;
  } else {
    try {
      co_await tear_down(row);
    } catch (...) {
      if (!storage_failure) storage_failure = std::current_exception();
    }
  }
  if (kept) nodes_ = std::move(kept);
  if (storage_failure) std::rethrow_exception(storage_failure);
}

/// Returns what could not be given back; that is in quarantine, and no later run gets it.
asio::awaitable<std::vector<std::string>> Runner::end_lending() {
  auto& lender = context_.lender;
  const auto end = [&lender] { return lender.end(); };
  auto failures = co_await offload(context_.pool, end);
  if (!failures.empty()) {
    log::error("devices could not be given back and are in quarantine; see virtrain clean",
               {{"failures", failures}});
    context_.event(std::nullopt, "tear_down", "devices could not be given back", {{"failures", failures}});
  }
  co_return failures;
}

asio::awaitable<void> Runner::run(ExperimentOutcome& outcome) {
  std::exception_ptr failure;
  try {
    for (const auto& planned : context_.plan.trials) {
      if (context_.stop.requested()) break;
      co_await run_trial(planned, outcome);
      if (options_.fail_fast && outcome.failed > 0) break;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  if (nodes_) {
    try {
      co_await nodes_->tear_down();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    nodes_.reset();
  }
  for (const auto& left : co_await end_lending()) {
    ++outcome.failed;
    if (outcome.first_failure.empty()) outcome.first_failure = left;
  }
  if (failure) std::rethrow_exception(failure);
}

results::Experiment experiment_record(const Scenario& scenario, const Plan& plan,
                                      const ExperimentOptions& options, const std::string& id) {
  results::Experiment record;
  record.id = id;
  record.scenario = scenario.name;
  record.scenario_text = scenario.text;
  record.label = options.label;
  record.started_at = iso8601(wall_ns());
  record.virtrain_version = kVersion;
  record.command_line = options.command_line;
  record.plan = to_json(plan);
  record.fingerprint = vmctl::host_fingerprint();
  record.host_name = record.fingerprint["hostname"];
  record.boot_id = record.fingerprint["boot_id"];
  return record;
}

/// Takes the plan's cores and devices; with `wait`, again and again until they are free or a stop comes. The
/// id is told before the first word about waiting, and not at all where the resources are refused.
void acquire(RunContext& context, const ExperimentOptions& options) {
  bool told = false;
  const auto tell_id = [&] {
    if (!told && options.on_id) options.on_id(context.experiment);
    told = true;
  };
  const auto resources = resources_of(context.plan);
  while (true) {
    try {
      context.journal.acquire(context.owner, resources);
      tell_id();
      return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::busy || !options.wait) throw;
      tell_id();
      log::info("waiting", {{"for", error.message()}});
    }
    context.io.restart();
    context.io.run_for(kBusyRetryPeriod);
    if (context.stop.requested()) throw Error("wait for free cores", ErrorCode::interrupted, "stopped");
  }
}

bool is_ignored(int signal_number) {
  struct sigaction action {};
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// The last words in the database, if it still takes any.
void end_in_database(RunContext& context, const ExperimentOutcome& outcome) {
  const bool stopped = outcome.stop_signal != 0;
  const bool failed = outcome.aborted_by.has_value() || outcome.failed > 0;
  const auto status = stopped  ? results::Status::interrupted
                      : failed ? results::Status::failed
                               : results::Status::finished;
  try {
    if (outcome.aborted_by)
      context.store.mark_interrupted(context.experiment);
    else
      context.store.end_experiment(context.experiment, status, iso8601(wall_ns()));
  } catch (const Error& error) {
    log::error("the end of the experiment could not be stored", {{"reason", error.what()}});
  }
}

}  // namespace

ExperimentOutcome run_experiment(const Scenario& scenario, const Plan& plan,
                                 const std::filesystem::path& database, const ExperimentOptions& options) {
  ExperimentOutcome outcome;
  outcome.experiment = make_experiment_id();
  asio::io_context io;
  asio::thread_pool pool(4);
  StopSource stop(io);
  asio::signal_set signals(io, SIGINT, SIGTERM);
  if (!is_ignored(SIGHUP)) signals.add(SIGHUP);  // a closed terminal; under nohup it is ignored
  const std::function<void()> listen = [&] {
    signals.async_wait([&](const boost::system::error_code& cancelled, int signal_number) {
      if (cancelled) return;
      log::warning(stop.requested() ? "still tearing down" : "stopping; tearing down",
                   {{"signal", signal_number}});
      stop.request(signal_number);
      listen();
    });
  };
  listen();

  results::Store store(database);
  vmctl::LeaseJournal journal;
  const auto owner = vmctl::this_process(outcome.experiment, std::filesystem::absolute(database).string());
  vmctl::DeviceLender lender(journal, owner);
  RunContext context{io,
                     pool,
                     stop,
                     store,
                     journal,
                     owner,
                     lender,
                     scenario,
                     plan,
                     outcome.experiment,
                     outcome.experiment.substr(outcome.experiment.size() - 6),
                     options.connect_uri,
                     vmctl::state_dir() / "logs" / outcome.experiment,
                     find_programs(scenario, plan),
                     std::nullopt,
                     1,
                     {}};
  acquire(context, options);
  std::filesystem::create_directories(context.log_dir);
  store.add_experiment(experiment_record(scenario, plan, options, outcome.experiment));

  Runner runner(context, options);
  std::exception_ptr failure;
  const auto on_end = [&](std::exception_ptr error) {
    failure = error;
    signals.cancel();
  };
  io.restart();
  asio::co_spawn(io, runner.run(outcome), on_end);
  io.run();
  pool.join();

  outcome.stop_signal = stop.signal_number();
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      outcome.aborted_by = error.code();
      outcome.first_failure = error.what();
    } catch (const std::exception& error) {
      outcome.aborted_by = ErrorCode::io;
      outcome.first_failure = error.what();
    }
    log::error("the experiment cannot go on", {{"reason", outcome.first_failure}});
  }
  end_in_database(context, outcome);
  context.vm_host.reset();
  journal.end(context.owner);
  return outcome;
}

}  // namespace virtrain::harness
