#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/edits/edits.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// The scenario that a verb takes, and what its command line changes of it.
struct ScenarioArguments {
  std::string path;
  ScenarioEdits edits;
  bool large_sweeps = false;
};

/// Adds the argument, --set, --case and --yes to a verb; returns the argument.
CLI::Option* add_scenario_arguments(CLI::App& verb, ScenarioArguments& arguments);
/// Reads the scenario and changes it. Error(bad_input) with positions, Error(usage) for a wrong change.
Scenario load(const ScenarioArguments& arguments);
/// The changed scenario; `name` is what errors call it.
Scenario with_edits(Scenario scenario, const std::string& name, const ScenarioArguments& arguments);

// Arguments that `compare` and `report` share; Error(usage) with what is allowed.

/// "2%" or "0.02": above 0 and below `below`.
double share(const std::string& flag, const std::string& text, double below);

/// "8,64,1024": the sizes that --predict asks for.
std::vector<std::int64_t> node_counts(const std::string& text);

/// The hosts that a verb's command line names.
struct HostsArguments {
  std::string hosts;  ///< a hosts file, or names with commas between; empty: none
  bool skip_unreachable = false;
};

/// Adds --hosts and --skip-unreachable to a verb; returns the former.
CLI::Option* add_hosts_options(CLI::App& verb, HostsArguments& arguments);

/// Gives the scenario the hosts that the command line names, if any.
void take_hosts(const HostsArguments& arguments, Scenario& scenario);

}  // namespace virtrain::harness
