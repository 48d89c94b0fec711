#include "harness/cli/run_scenario.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/user_folders.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/cli/choices.h"
#include "harness/cli/cli.h"
#include "harness/cli/progress_line.h"
#include "harness/experiment/cuda_host.h"
#include "harness/experiment/judge.h"
#include "harness/experiment/preflight.h"
#include "harness/hosts/at_once.h"
#include "harness/hosts/attached_host.h"
#include "harness/hosts/named_host.h"
#include "harness/hosts/run_hosts.h"
#include "harness/job/programs.h"
#include "harness/plan/host_shares.h"
#include "harness/plan/plan.h"
#include "results/reading/reading.h"

namespace virtrain::harness {
namespace {

void write_to(std::FILE* stream, const std::string& text) {
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

std::string summary_line(const Scenario& scenario, const ExperimentOutcome& outcome, std::int64_t took_ns) {
  std::string early;
  for (const auto& ended : outcome.ended_early) { early += ended + "\n"; }
  return early +
         fmt::format("virtrain {} {}: {} finished, {}{} failed{}{} in {}", scenario.name, outcome.experiment,
                     counted(outcome.finished, "trial"),
                     outcome.invalid > 0 ? fmt::format("{} of them invalid, ", outcome.invalid) : "",
                     outcome.failed, outcome.stop_signal != 0 ? ", interrupted" : "",
                     outcome.first_failure.empty()
                         ? ""
                         : " (" + outcome.first_failure.substr(0, outcome.first_failure.find('\n')) + ")",
                     format_duration(took_ns));
}

}  // namespace

void learn_from(const std::filesystem::path& database, const Scenario& scenario, const std::string& host,
                Plan& plan) {
  try {
    if (!std::filesystem::exists(database)) { return; }
    const results::Store store(database, results::Store::Mode::open);
    learn(plan, past_trials(store, scenario, host));
  } catch (const std::exception& error) {  // an estimate is worth no failure
    log::debug("estimates are not corrected by what is stored", {{"reason", error.what()}});
  }
}

namespace {

results::CompareRequest comparison_of(const std::string& experiment, const Scenario& scenario) {
  results::CompareRequest request;
  request.selection.experiments = {experiment};
  request.settings = expected_settings(scenario).value_or(results::Settings());
  return request;
}

}  // namespace

void add_privileges_option(CLI::App& verb, std::optional<Elevation>& elevation) {
  verb.add_option(
          "--privileges", elevation,
          "How a user gets a process with root's privileges: group (the socket of group virtrain), sudo "
          "or none (default: the first that works and asks nothing; on a terminal sudo may ask where "
          "the scenario needs root)")
      ->type_name("WAY")
      ->transform(name_of(by_word<Elevation>()));
}

void add_host_options(CLI::App& verb, RunOptions& options) {
  using vmctl::HostMode;
  const std::map<std::string, HostMode> uris{{vmctl::system_libvirt, HostMode::system},
                                             {"qemu:///session", HostMode::session}};
  auto* mode =
      verb.add_option("--mode", options.mode,
                      "What the run may do to this host: system, namespaces or session (default: the "
                      "best that works; virtrain doctor says which)");
  mode->type_name("MODE")->transform(name_of(by_word<HostMode>()));
  auto* uri =
      verb.add_option("--connect", options.mode, "The same, as libvirt's qemu:///system or qemu:///session");
  uri->type_name("URI")->transform(name_of(uris))->excludes(mode);
  add_privileges_option(verb, options.elevation);
  verb.add_flag("--wait", options.experiment.wait,
                "Wait for busy cores and devices instead of exiting with 75");
  verb.add_flag("!--no-host-changes", options.experiment.may_change_host,
                "Leave /dev/kvm as it is, start no libvirt daemon and stop no service");
}

namespace {

/// Hosts that can run the scenario, and how.
struct Prepared {
  std::vector<NamedHost> hosts;  ///< those that the plan has nodes on
  vmctl::HostMode mode = vmctl::HostMode::system;
  std::string place;  ///< Experiment::host_name of the run
  Plan plan;
};

using OpenHosts = std::function<std::vector<NamedHost>(const HostRequest& request)>;

/// Error(host_unable) where it cannot. Nothing is done.
Prepared prepare(const Scenario& scenario, const RunOptions& options, const OpenHosts& open) {
  auto hosts = open({});
  const auto mode = choose_mode(hosts, options.mode, scenario);
  if (mode != vmctl::HostMode::system) {  // which a process has to enter before it does anything
    hosts = open({.mode = mode, .with_vms = has_arm(scenario, arm_vm)});
  }
  auto rooms = plan_hosts(hosts, scenario);
  auto plan = make_plan(scenario, rooms, options.done);
  if (options.security_only) {
    plan.trials.clear();
    leave_out_impossible_arms(*hosts.front().host, scenario, rooms.front().inventory, mode, plan);
  } else {
    check_hosts(hosts, rooms, scenario, plan, mode);
  }
  auto place = place_of(plan, rooms);
  if (hosts.size() > 1) {
    const auto used = hosts_of(plan);
    std::erase_if(hosts, [&](const NamedHost& one) { return !contains(used, one.name); });
  }
  return {std::move(hosts), mode, std::move(place), std::move(plan)};
}

/// On this machine.
Prepared prepare(const Scenario& scenario, const RunOptions& options, Elevation elevation) {
  return prepare(scenario, options, [elevation](HostRequest request) {
    request.elevation = elevation;
    std::vector<NamedHost> hosts;
    hosts.push_back({"", {}, open_host(request)});
    return hosts;
  });
}

/// A user's own modes want the user's own privileges, unless told otherwise.
std::optional<Elevation> wanted_elevation(const RunOptions& options) {
  const bool has_own_mode = options.mode.value_or(vmctl::HostMode::system) != vmctl::HostMode::system;
  return !options.elevation && has_own_mode ? Elevation::none : options.elevation;
}

/// Asks for a password only where it is needed and somebody is there.
Prepared prepare(const Scenario& scenario, const RunOptions& options) {
  if (!scenario.hosts.hosts.empty()) {
    return prepare(scenario, options, [&](const HostRequest& request) {
      return open_hosts(scenario.hosts, request, options.skip_unreachable);
    });
  }
  const auto wanted = wanted_elevation(options);
  const auto elevation = choose_elevation(wanted);
  try {
    return prepare(scenario, options, elevation);
  } catch (const Error& error) {
    const bool may_ask = !wanted && elevation == Elevation::none && may_ask_for_sudo();
    if (error.code() != ErrorCode::host_unable || !may_ask) { throw; }
    log::warning("this host cannot run it without root", {{"reason", error.message()}});
  }
  ask_for_sudo();
  return prepare(scenario, options, Elevation::sudo);
}

}  // namespace

ScenarioRun run_scenario(const Scenario& scenario, RunOptions& options) {
  auto [hosts, mode, place, plan] = prepare(scenario, options);
  auto& first = *hosts.front().host;
  options.experiment.mode = mode;
  learn_from(options.database, scenario, place, plan);
  if (options.planned) { options.planned(first, plan); }

  const bool terminal = ::isatty(STDERR_FILENO) == 1 && !options.quiet;
  if (terminal) { look_for_image(first, scenario, plan); }  // 0.1 s, for the time that is left
  // The id is the first line on stderr, so that whoever reads along knows what to ask for.
  options.experiment.on_id = [&plan = plan, mode = mode, quiet = options.quiet](const std::string& id) {
    if (!quiet) { write_to(stderr, id + "\n"); }
    if (const auto lacks = vmctl::what_it_lacks(mode); !lacks.empty()) {
      log::info(fmt::format("mode {}, without {}", to_string(mode), lacks));
    }
    for (const auto& warning : plan.warnings) { log::warning(warning); }
    if (const auto theirs = passed_over_folders(); !theirs.empty()) {
      log::info("root keeps out of other users' folders and uses its own",
                {{"passed_over", theirs}, {"home", home_folder().string()}});
    }
  };
  std::optional<ProgressLine> line;  // elsewhere logs say enough
  if (terminal) {
    options.experiment.progress = [&line](const Progress& progress) { line->show(progress); };
    line.emplace();
  }
  const std::int64_t began_ns = monotonic_ns();
  ScenarioRun run;
  const auto machines = attached_machines(scenario);
  auto needs = needs_of_machines(plan);
  if (!machines.empty() && uses_cuda(plan)) {
    needs.libraries = first.look_at_cuda(trainer_name(Backend::cuda)).libraries;
  }
  const auto attached = attached_hosts(machines, std::move(needs));
  if (hosts.size() == 1) {
    RunHosts only(first);
    only.attach(machines, attached);
    run.outcome = run_experiment(only, scenario, plan, options.database, options.experiment);
  } else {
    RunHosts all(hosts);
    run.outcome = run_experiment(all, scenario, plan, options.database, options.experiment);
  }
  line.reset();
  run.request = comparison_of(run.outcome.experiment, scenario);
  if (!options.resumed.empty()) { run.request.selection.experiments.push_back(options.resumed); }
  // Everything that is printed comes from the database.
  if (run.outcome.finished > 0) {
    after_run(run.outcome, [&] {
      const results::Store store(options.database, results::Store::Mode::open, longest_database_wait);
      run.comparisons = results::compare(store, run.request);
    });
  }
  run.summary = summary_line(scenario, run.outcome, monotonic_ns() - began_ns);
  return run;
}

void after_run(const ExperimentOutcome& outcome, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (judge(outcome, {}, false) == 0) { throw after_begin(error); }
    log::error("the results could not be shown; what was stored is there for virtrain compare",
               {{"reason", error.what()}});
  }
}

void print_result(const std::string& text) {
  write_to(stdout, text);
  if (std::ferror(stdout) != 0) {
    log::warning("the results are stored but could not be printed; virtrain compare shows them");
  }
}

}  // namespace virtrain::harness
