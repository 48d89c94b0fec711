#include "harness/cli/arguments.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/shipped_scenarios.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/decode/hosts.h"

namespace virtrain::harness {

CLI::Option* add_scenario_arguments(CLI::App& verb, ScenarioArguments& arguments) {
  auto* path = verb.add_option("scenario", arguments.path, scenario_help)->type_name("FILE");
  verb.add_option("--set", arguments.edits.values,
                  "Another value for a key, in YAML: workload.batch_size=64 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  verb.add_option("--case", arguments.edits.cases, "This case only, or this size of it (may be repeated)")
      ->type_name("CASE")
      ->expected(1)
      ->take_all();
  add_large_sweeps_flag(verb, arguments.large_sweeps);
  return path;
}

Scenario load(const ScenarioArguments& arguments) {
  return with_edits(load_scenario(scenario_path(arguments.path), arguments.large_sweeps), arguments.path,
                    arguments);
}

Scenario with_edits(Scenario scenario, const std::string& name, const ScenarioArguments& arguments) {
  if (arguments.edits.empty()) { return scenario; }
  return decode_scenario(edited_scenario(scenario, arguments.edits), name + " as changed by the command line",
                         arguments.large_sweeps, folder_of_scenario(name));
}

double share(const std::string& flag, const std::string& text, double below) {
  const auto value = parse_share(text);
  if (!value || *value <= 0 || *value >= below) {
    throw Error(
        "read the command line", ErrorCode::usage,
        fmt::format("{} {} is not allowed (allowed: a share such as 2% or 0.02, above 0 and below {}{})",
                    flag, text, below,
                    parse_share(text + "%").value_or(below) < below ? "; did you mean " + text + "%?" : ""));
  }
  return *value;
}

std::vector<std::int64_t> node_counts(const std::string& text) {
  constexpr std::int64_t most = 1'000'000;
  std::vector<std::int64_t> sizes;
  for (const auto& part : split(text, ',')) {
    const auto nodes = parse_integer(trim(part));
    if (!nodes || *nodes < 1 || *nodes > most) {
      throw Error(
          "read the command line", ErrorCode::usage,
          fmt::format("--predict {} is not allowed (allowed: node counts such as 8,64,1024, at most {})",
                      text, most));
    }
    sizes.push_back(*nodes);
  }
  return sizes;
}

CLI::Option* add_hosts_options(CLI::App& verb, HostsArguments& arguments) {
  auto* hosts = verb.add_option("--hosts", arguments.hosts,
                                "Hosts file, or names with commas between that ssh reaches: gpu-a,gpu-b "
                                "(default: the scenario's hosts, else this machine)")
                    ->type_name("FILE|NAMES")
                    ->check(not_empty());
  verb.add_flag("--skip-unreachable", arguments.skip_unreachable,
                "Leave out hosts that do not answer, and say so");
  return hosts;
}

void take_hosts(const HostsArguments& arguments, Scenario& scenario) {
  if (!arguments.hosts.empty()) { set_hosts(scenario, hosts_of(scenario, arguments.hosts)); }
}

}  // namespace virtrain::harness
