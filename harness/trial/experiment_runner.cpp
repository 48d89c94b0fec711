#include "harness/trial/experiment_runner.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/time.h"
#include "harness/plan/domain_spec.h"
#include "harness/trial/trial_run.h"
#include "vmctl/guest/mirror/guest_driver.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"
#include "vmctl/process/paths.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;

constexpr const char* something_is_left = "something could not be removed; run: virtrain clean";

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
  asio::awaitable<void> tear_down(std::unique_ptr<NodeSet>& nodes, std::int64_t row);
  void flush_after_failure(TrialRun& trial);
  bool may_keep_nodes(const PlannedTrial& planned) const;
  void record_end(std::int64_t row, const TrialRun& trial, const std::exception_ptr& failure,
                  ExperimentOutcome& outcome);
  results::Trial trial_record(const PlannedTrial& planned) const;
  void say(const PlannedTrial& planned, const std::string& line) const;

  RunContext& context_;
  const ExperimentOptions& options_;
  KnownPlans plans_;
  std::unique_ptr<NodeSet> nodes_;  ///< of the present trial
  std::unique_ptr<NodeSet> kept_;   ///< VMs that wait for their case's next trial (reuse: case)
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
  if (planned.arm != arm_vm) {
    trial.virtualization = vmctl::to_string(vmctl::Virtualization::none);
  } else if (context_.vm_host) {
    trial.virtualization = vmctl::to_string(context_.vm_host->virtualization);
  }
  trial.oversubscribed = placement.oversubscribed;
  trial.started_at = iso8601(wall_ns());
  return trial;
}

void Runner::say(const PlannedTrial& planned, const std::string& line) const {
  if (!options_.progress) { return; }
  options_.progress(fmt::format("[{}/{}] {} {} pair {}: {}", planned.order, context_.plan.trials.size(),
                                context_.plan.placements[planned.placement].case_name, planned.arm,
                                planned.pair, line));
}

/// Of all the plan's trials.
std::vector<vmctl::DeviceGrant> all_grants(const RunContext& context) {
  std::vector<vmctl::DeviceGrant> grants;
  for (const auto& placement : context.plan.placements) {
    for (auto& grant : grants_of(placement, HostNames{context.experiment, context.tag})) {
      grants.push_back(std::move(grant));
    }
  }
  return grants;
}

/// Stage bind: the trial's devices are where its arm needs them. Adjacent trials of one arm find them so.
asio::awaitable<void> Runner::bind_devices(TrialRun& trial, const PlannedTrial& planned) {
  const auto all = all_grants(context_);
  if (all.empty()) { co_return; }
  trial.enter("bind");
  auto& lender = context_.lender;
  // For whichever trial comes first: what a service does to the GPUs or takes of the CPU would else be in the
  // trials before the first VM with devices and not in those after it.
  const auto keep_away = [&lender, all] { lender.keep_services_away(all); };
  co_await offload(context_.pool, keep_away);
  const auto grants =
      grants_of(context_.plan.placements[planned.placement], HostNames{context_.experiment, context_.tag});
  if (grants.empty()) { co_return; }
  const std::int64_t began_ns = monotonic_ns();
  if (planned.arm == arm_vm) {
    const auto lend = [&lender, grants] { return lender.lend(grants); };
    const auto count = co_await offload(context_.pool, lend);
    context_.event(trial.row(), "bind", "devices lent",
                   {{"count", count}, {"seconds", static_cast<double>(monotonic_ns() - began_ns) * 1e-9}});
    co_return;
  }
  co_await give_devices_back(trial.row());
  const auto& settings = context_.scenario.devices.settings;
  const auto set = [&lender, grants, &settings] { lender.set(grants, settings); };
  if (!settings.empty()) { co_await offload(context_.pool, set); }
}

asio::awaitable<void> Runner::give_devices_back(std::optional<std::int64_t> row) {
  auto& lender = context_.lender;
  const auto give_back = [&lender] { return lender.give_back(); };
  const auto failures = co_await offload(context_.pool, give_back);
  if (failures.empty()) { co_return; }
  context_.event(row, "bind", "devices could not be given back", {{"failures", failures}});
  throw Error("give the devices back", ErrorCode::host_unable, join(failures, "; "));
}

bool lends_nvidia_devices(const Plan& plan) {
  const auto is_nvidia = [](const auto& device) { return device.vendor == vmctl::nvidia; };
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        if (std::any_of(node.devices.begin(), node.devices.end(), is_nvidia)) { return true; }
      }
    }
  }
  return false;
}

/// Stage image: libvirt answers, the guest image exists, and a probe has shown whether KVM works.
asio::awaitable<void> Runner::prepare_vm_host(std::int64_t trial) {
  if (context_.vm_host) { co_return; }
  VmHost host;
  const auto prepare = [&host, this] {
    if (const auto said = context_.lender.open_kvm_device(); !said.empty()) { log::warning(said); }
    if (context_.mode == vmctl::HostMode::system) {
      host.daemon = std::make_unique<vmctl::LibvirtDaemon>(vmctl::system_libvirt, context_.may_change_host);
    } else {
      host.private_daemon = std::make_unique<vmctl::PrivateLibvirt>();
    }
    host.hypervisor =
        vmctl::connect_libvirt(host.private_daemon ? host.private_daemon->uri() : vmctl::system_libvirt);
    vmctl::MirrorSpec spec;
    spec.files = {{context_.programs.agent, vmctl::guest_agent},
                  {context_.programs.rsh, Programs::guest_rsh}};
    for (const auto& [backend, program] : context_.programs.trainers) {
      spec.files.push_back({program, Programs::guest_trainer(backend)});
    }
    if (!context_.scenario.probes.empty()) {
      spec.files.push_back({context_.programs.probe, Programs::guest_probe});
    }
    spec.cache_dir = vmctl::cache_dir();
    if (lends_nvidia_devices(context_.plan)) {
      const auto driver = vmctl::find_guest_driver("/", vmctl::find_guest_kernel().version);
      if (driver) { vmctl::carry_driver(spec, *driver); }
    }
    host.image = vmctl::build_mirror_image(spec, [](std::string_view line) { log::info(line); });
    if (!context_.scenario.guest.is_mirror()) {
      host.cloud_image = vmctl::inspect_cloud_image(context_.scenario.guest.image);
    }
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
        if (!context_.vm_host) { trial.enter("image"); }
        co_await prepare_vm_host(row);
        context_.store.set_trial_virtualization(row, vmctl::to_string(nodes.virtualization()));
      }
      if (!nodes_are_up) { co_await bind_devices(trial, planned); }
      co_await trial.run(nodes, nodes_are_up);
    } catch (...) { failure = std::current_exception(); }
  };
  co_await (work() || context_.stop.wait());
  co_return failure;
}

bool Runner::may_keep_nodes(const PlannedTrial& planned) const {
  if (context_.scenario.reuse != Reuse::experiment_case || planned.arm != arm_vm) { return false; }
  const auto& trials = context_.plan.trials;
  for (auto next = static_cast<std::size_t>(planned.order); next < trials.size(); ++next) {
    if (trials[next].placement == planned.placement && trials[next].arm == arm_vm) { return true; }
  }
  return false;
}

asio::awaitable<void> Runner::tear_down(std::unique_ptr<NodeSet>& nodes, std::int64_t row) {
  if (!nodes) { co_return; }
  context_.event(row, "tear_down", "stage tear_down");
  const auto left = co_await nodes->tear_down();
  nodes.reset();
  if (left.empty()) { co_return; }
  log::warning(something_is_left, {{"left", left}});
  context_.event(row, "tear_down", something_is_left, {{"left", left}});
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
  } catch (const std::exception& error) { reason = error.what(); }
  ++outcome.failed;
  if (outcome.first_failure.empty()) { outcome.first_failure = reason; }
  log::error("trial failed", {{"trial", row}, {"stage", trial.stage()}, {"reason", reason}});
  context_.event(row, trial.stage(), "trial failed", {{"reason", reason}});
  context_.store.fail_trial(row, {trial.stage(), reason, trial.console_tail()}, iso8601(wall_ns()));
}

/// What was measured before the fault counts. What the schema refuses ends no experiment.
void Runner::flush_after_failure(TrialRun& trial) {
  std::string refusal;
  try {
    trial.flush();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::trial_failed) { throw; }
    refusal = error.what();
  }
  if (!refusal.empty()) {
    context_.event(trial.row(), trial.stage(), "measured values were refused", {{"reason", refusal}});
  }
}

asio::awaitable<void> Runner::run_trial(const PlannedTrial& planned, ExperimentOutcome& outcome) {
  const std::int64_t row = context_.store.begin_trial(trial_record(planned));
  context_.progress = [this, &planned](const std::string& line) { say(planned, line); };
  const bool is_vm = planned.arm == arm_vm;
  const bool reused = kept_ && is_vm && kept_placement_ == planned.placement;
  if (is_vm && !reused) { co_await tear_down(kept_, row); }
  if (reused) {
    nodes_ = std::move(kept_);
  } else {
    nodes_ = std::make_unique<NodeSet>(context_, context_.plan.placements[planned.placement], planned.arm);
  }

  TrialRun trial(context_, planned, row, plans_);
  std::exception_ptr failure = co_await attempt(trial, planned, *nodes_, row, reused);
  std::exception_ptr storage_failure;
  try {
    if (failure) { flush_after_failure(trial); }
    record_end(row, trial, failure, outcome);
    if (!failure) { say(planned, fmt::format("{:.2f} images/s", trial.images_per_second())); }
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
  if (storage_failure) { std::rethrow_exception(storage_failure); }
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
      if (context_.stop.requested()) { break; }
      co_await run_trial(planned, outcome);
      if (options_.fail_fast && outcome.failed > 0) { break; }
    }
  } catch (...) { failure = std::current_exception(); }
  for (auto* nodes : {&nodes_, &kept_}) {
    if (!*nodes) { continue; }
    const auto left = co_await (*nodes)->tear_down();
    if (!left.empty()) { log::warning(something_is_left, {{"left", left}}); }
    nodes->reset();
  }
  for (const auto& left : co_await end_lending()) {
    ++outcome.failed;
    if (outcome.first_failure.empty()) { outcome.first_failure = left; }
  }
  if (failure) { std::rethrow_exception(failure); }
}

}  // namespace

asio::awaitable<void> run_trials(RunContext& context, const ExperimentOptions& options,
                                 ExperimentOutcome& outcome) {
  Runner runner(context, options);
  co_await runner.run(outcome);
}

}  // namespace virtrain::harness
