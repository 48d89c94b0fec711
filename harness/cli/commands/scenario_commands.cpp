#include <fmt/ostream.h>

#include <iostream>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/help/choices.h"
#include "harness/cli/shipped_scenarios.h"
#include "harness/experiment/preflight.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/node_group.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "results/exchange/records/exchange_schema.h"

namespace virtrain::harness {
namespace {

struct PlanArguments {
  std::string scenario;
  std::string inventory = "/";
  results::Format format = results::Format::table;
  bool xml = false;
  bool large_sweeps = false;
};

void validate(const std::string& path, bool large_sweeps) {
  const auto scenario = load_scenario(scenario_path(path), large_sweeps);
  for (const auto& warning : scenario.warnings) { log::warning(warning); }
  fmt::print(std::cout, "{}: valid: {}, {}, {}\n", excerpt(path, 4096),
             counted(scenario.cases.size(), "case"), counted(scenario.arms.size(), "arm"),
             counted(scenario.pairs, "pair"));
}

/// The mode in which `run` would run it here, what that lacks, and what it refuses.
void say_what_this_host_gives(vmctl::Host& host, const Scenario& scenario, const Plan& plan,
                              const vmctl::Inventory& inventory) {
  const auto mode = choose_mode(host, std::nullopt, scenario);
  const auto lacks = vmctl::what_it_lacks(mode);
  if (!lacks.empty()) {
    log::warning(fmt::format("this host gives mode {}, without {}", to_string(mode), lacks));
  }
  try {
    check_host(host, scenario, plan, inventory, mode);
  } catch (const Error& error) { log::warning("run refuses this plan here: " + error.message()); }
}

/// Warns about what `run` would refuse there, by the checks of a recorded host's devices.
void say_what_that_host_lacks(vmctl::Host& host, const Scenario& scenario, const Plan& plan,
                              const vmctl::Inventory& inventory) {
  const auto demands = device_demands(plan, scenario);
  if (demands.empty()) { return; }
  for (const auto& finding : host.examine_devices(inventory, demands)) {
    if (!blocks(finding)) { continue; }
    log::warning(
        fmt::format("run refuses this plan there: {}: {} ({})", finding.id, finding.found, finding.fix));
  }
}

void print_plan(const PlanArguments& arguments) {
  const auto scenario = load_scenario(scenario_path(arguments.scenario), arguments.large_sweeps);
  const auto host = open_host(arguments.inventory);
  const auto inventory = host->inventory(scenario.devices.kind != DeviceKind::none);
  const bool emulated = expects_emulation(inventory);
  const auto plan = make_plan(scenario, inventory, emulated);
  const bool as_json = arguments.format == results::Format::json;
  if (!as_json) { fmt::print(std::cout, "{}", to_table(plan)); }
  if (arguments.inventory == "/") {
    say_what_this_host_gives(*host, scenario, plan, inventory);
  } else {
    say_what_that_host_lacks(*host, scenario, plan, inventory);
  }
  if (!as_json && !arguments.xml) { return; }
  auto json = to_json(plan);
  if (arguments.xml) {
    add_domain_xml(json, plan, [&](const auto& group, auto tenant, auto node, auto number) {
      return host->planned_xml(group, tenant, node, number, emulated);
    });
  }
  fmt::print(std::cout, "{}", as_json ? dump_json(json, 2) + "\n" : domain_xml_text(json));
}

results::Table shipped_table() {
  results::Table table;
  table.columns = {{"name", "name"},
                   {"backend", "backend"},
                   {"description", "description"},
                   {"path", "path", false, true}};
  for (const auto& one : shipped_scenarios()) {
    using results::cell;
    table.rows.push_back(
        {cell(one.name), cell(one.backend), cell(one.description), results::silent_cell(one.path)});
  }
  if (table.rows.empty()) { table.notes.push_back("no scenarios are installed beside this program"); }
  return table;
}

}  // namespace

void add_scenario_commands(Cli& cli) {
  auto* check = cli.app.add_subcommand("validate", "Check a scenario file; nothing is done");
  auto path = std::make_shared<std::string>();
  check->add_option("scenario", *path, scenario_help)->type_name("FILE")->required();
  check->footer("Example:\n  virtrain validate scenarios/quickstart.yaml");
  auto large_sweeps = std::make_shared<bool>(false);
  add_large_sweeps_flag(*check, *large_sweeps);
  check->callback([path, large_sweeps] { validate(*path, *large_sweeps); });

  auto* plan =
      cli.app.add_subcommand("plan", "Show exactly what run would do: trials, placement, boots, time");
  auto arguments = std::make_shared<PlanArguments>();
  plan->add_option("scenario", arguments->scenario, scenario_help)->type_name("FILE")->required();
  plan->add_option("--inventory", arguments->inventory,
                   "Plan for a recorded host: a folder with its proc/ and sys/ files")
      ->check(CLI::ExistingDirectory);
  plan->add_option("--format", arguments->format, "table or json")
      ->transform(
          name_of<results::Format>({{"table", results::Format::table}, {"json", results::Format::json}}));
  plan->add_flag("--xml", arguments->xml,
                 "Also the domain XML: each VM's in JSON, those of each case's first VM trial in the table");
  add_large_sweeps_flag(*plan, arguments->large_sweeps);
  plan->footer(
      "Examples:\n  virtrain plan scenarios/quickstart.yaml\n  virtrain plan scenarios/dell-r750xa.yaml "
      "--inventory r750xa --format json");
  plan->callback([arguments] { print_plan(*arguments); });

  auto* shipped =
      cli.app.add_subcommand("scenarios", "List the scenarios that ship, which run takes by name");
  auto format = std::make_shared<results::Format>(results::Format::table);
  add_format_option(*shipped, *format);
  shipped->footer("Examples:\n  virtrain scenarios\n  virtrain run quickstart");
  shipped->callback([format] {
    fmt::print(std::cout, "{}", results::render(shipped_table(), *format, screen_of_stdout()));
  });

  auto* schema = cli.app.add_subcommand(
      "schema", "Print the JSON Schema of scenario files, for editors, or of exchange records");
  auto of = std::make_shared<std::string>("scenario");
  schema->add_option("of", *of, "scenario, or exchange: a line of import's and export's jsonl")
      ->check(one_of({"scenario", "exchange"}));
  schema->footer(
      "Examples:\n  virtrain schema > virtrain.schema.json\n  virtrain schema exchange > "
      "exchange.schema.json");
  // More than a pipe holds: a reader that goes away is told to finish_output(), and not by an exception.
  schema->callback([of] {
    std::cout << (*of == "exchange" ? results::exchange_schema() : scenario_schema()).dump(2) << '\n';
  });
}

}  // namespace virtrain::harness
