#pragma once

#include <CLI/CLI.hpp>

#include <string>

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

}  // namespace virtrain::harness
