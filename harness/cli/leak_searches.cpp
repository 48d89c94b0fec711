#include "harness/cli/leak_searches.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "common/error.h"
#include "common/system/log.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/report_file.h"
#include "harness/cli/search_path.h"
#include "harness/experiment/judge.h"
#include "harness/scenario/decode/decode.h"
#include "results/exchange/files/work_folder.h"
#include "results/tables/security_table.h"

namespace virtrain::harness {
namespace {

/// Only its arms, guest and tenants matter: its trials are not run.
constexpr const char* own_scenario = R"(name: security
description: Leak searches of virtrain isolate --security
workload: {model: resnet50, backend: cpu}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
arms: [bare_metal, vm]
pairs: 1
security: true
)";

std::vector<results::LeakSearch> searches_of(const results::Store& store,
                                             const std::vector<std::string>& experiments) {
  std::vector<results::LeakSearch> all;
  for (const auto& id : experiments) {
    const auto searches = store.leak_searches(id);
    all.insert(all.end(), searches.begin(), searches.end());
  }
  return all;
}

/// A search that the scenario never asks for is a mistake in it; one that it asks for and this host cannot do
/// is not.
void require_a_lender(const std::vector<const SecurityArm*>& lenders) {
  const std::string operation = "isolate --security --devices-only";
  if (lenders.empty()) {
    throw Error(operation, ErrorCode::usage, "no arm of the scenario assigns a device to a VM");
  }
  const auto lacking = [](const auto* arm) { return !arm->lacks.empty(); };
  if (std::ranges::all_of(lenders, lacking)) {
    throw Error(operation, ErrorCode::host_unable,
                "arm " + lenders.front()->arm + " is not possible here: " + lenders.front()->lacks);
  }
}

/// Where a device is lent, what a run that is killed leaves in it is for the searches to find.
void kill_a_run_before(SecurityArguments& arguments) {
  auto& options = arguments.options;
  options.planned = [&arguments, &options](vmctl::Host& host, const Plan& plan) {
    std::vector<const SecurityArm*> lenders;
    for (const auto& arm : plan.security) {
      if (arm.device_placement) { lenders.push_back(&arm); }
    }
    if (options.experiment.security.devices_only) { require_a_lender(lenders); }
    const auto can = [](const auto* arm) { return arm->lacks.empty(); };
    if (std::ranges::none_of(lenders, can)) { return; }
    const results::WorkFolder folder(options.database);
    std::vector<std::string> command{this_program(),
                                     "isolate",
                                     "--security",
                                     arguments.scenario,
                                     "--until-filled",
                                     "--db",
                                     folder.named_path() / "killed.db",
                                     "--mode",
                                     to_string(options.experiment.mode)};
    if (!options.experiment.may_change_host) { command.emplace_back("--no-host-changes"); }
    if (options.elevation) { command.insert(command.end(), {"--privileges", to_string(*options.elevation)}); }
    if (options.experiment.wait) { command.emplace_back("--wait"); }
    log::info("leak searches: a run of its own fills the device and is killed");
    options.experiment.security.killed = kill_a_run(host, command);
  };
}

bool write_security_report(const SecurityArguments& arguments, const results::CompareRequest& request,
                           const std::string& command_line) {
  try {
    write_report(arguments.options.database, {request, command_line}, arguments.report);
    return true;
  } catch (const Error& error) {
    log::error("could not write the report; the results are saved, retry with virtrain report",
               {{"reason", error.what()}});
    return false;
  }
}

}  // namespace

int search_for_leaks(SecurityArguments& arguments, const std::string& command_line) {
  auto scenario = arguments.scenario.empty()
                      ? decode_scenario(own_scenario, "the scenario of isolate --security")
                      : load_scenario(arguments.scenario, true);
  scenario.security = true;
  if (!arguments.report.empty()) { require_report_place(arguments.report); }
  auto& options = arguments.options;
  options.security_only = true;
  options.experiment.command_line = command_line;
  if (arguments.until_filled) {
    options.experiment.security.filled = tell_and_die(print_result);
  } else {
    kill_a_run_before(arguments);
  }
  const auto run = run_scenario(scenario, options);
  const auto& id = run.outcome.experiment;
  std::vector<results::LeakSearch> searches;
  bool reported = true;
  after_run(run.outcome, [&] {
    searches = searches_of(results::Store(options.database, results::Store::Mode::open), {id});
    if (!options.quiet && !searches.empty()) {
      print_result(
          results::render(results::narrow_security_table(searches), arguments.format, screen_of_stdout()));
    }
    reported = arguments.report.empty() || searches.empty() ||
               write_security_report(arguments, run.request, command_line);
  });
  const auto summary =
      fmt::format("virtrain isolate --security {}: {}\n", id,
                  searches.empty() ? "no search was run" : results::security_summary(searches));
  if (options.quiet) {
    print_result(summary);
  } else {
    std::cerr << summary << std::flush;
  }
  const int status = judge(run.outcome, {}, false);
  if (status != 0) { return status; }
  if (!reported) { return exit_status(ErrorCode::io); }
  return arguments.expect ? judge_security(searches) : 0;
}

std::vector<results::LeakSearch> print_security(const results::Store& store,
                                                const std::vector<std::string>& experiments,
                                                results::Format format) {
  auto searches = searches_of(store, experiments);
  if (searches.empty()) {
    throw Error("isolate --security", ErrorCode::not_found,
                "the selected experiments have no leak searches (virtrain isolate --security runs them)");
  }
  print_result(results::render(results::narrow_security_table(searches), format, screen_of_stdout()));
  return searches;
}

}  // namespace virtrain::harness
