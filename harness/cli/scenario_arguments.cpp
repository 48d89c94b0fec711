#include "harness/cli/scenario_arguments.h"

#include "harness/cli/commands.h"
#include "harness/cli/help/choices.h"
#include "harness/cli/shipped_scenarios.h"
#include "harness/scenario/decode/decode.h"

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

}  // namespace virtrain::harness
