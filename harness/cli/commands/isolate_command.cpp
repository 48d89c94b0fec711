#include <fmt/ostream.h>

#include <iostream>

#include "common/error.h"
#include "harness/cli/arguments.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/leak_searches.h"
#include "harness/experiment/judge.h"
#include "results/reading/reading.h"
#include "results/store/store.h"
#include "results/tables/isolation_table.h"

namespace virtrain::harness {
namespace {

struct IsolateArguments {
  std::filesystem::path database;
  results::Format format = results::Format::table;
  results::Selection selection;
  std::string margin, alpha = "0.05";
  bool mitigations = false;
  bool security = false;
  SecurityArguments searches;
};

/// Runs the searches; where an experiment or a scenario is selected, shows what is stored of them.
void security(IsolateArguments& arguments, Cli& cli) {
  auto& searches = arguments.searches;
  const auto& selection = arguments.selection;
  searches.format = arguments.format;
  if (!selection.experiments.empty() || !selection.scenario.empty()) {
    const results::Store store(arguments.database, results::Store::Mode::open);
    const auto ids =
        selection.experiments.empty() ? store.select(selection) : store.full_ids(selection.experiments);
    const auto stored = print_security(store, ids, arguments.format);
    cli.exit_status = searches.expect ? judge_security(stored) : 0;
    return;
  }
  searches.options.database = arguments.database;
  searches.options.experiment.label = selection.label;
  searches.options.quiet = cli.quiet;
  cli.exit_status = search_for_leaks(searches, cli.command_line);
}

void isolate(const IsolateArguments& arguments) {
  const results::Store store(arguments.database, results::Store::Mode::open);
  const auto margin =
      arguments.margin.empty() ? std::nullopt : std::optional(share("--margin", arguments.margin, 1));
  const auto study = results::isolation_study(store, store.select(arguments.selection), margin,
                                              share("--alpha", arguments.alpha, 0.5));
  if (study.matrices.empty()) {
    throw Error(
        "isolate", ErrorCode::not_found,
        "no trial of the selected experiments ran next to a neighbour (run a scenario with isolation, "
        "as scenarios/isolation-cpu-small.yaml)");
  }
  if (arguments.mitigations && study.mitigations.empty()) {
    throw Error(
        "isolate --mitigations", ErrorCode::not_found,
        "no variant of an arm ran next to an aggressor in the selected experiments (run a scenario with "
        "one, as scenarios/isolation-limits.yaml)");
  }
  const auto screen = screen_of_stdout();
  fmt::print(std::cout, "{}",
             arguments.mitigations
                 ? results::render(results::mitigation_table(study.mitigations), arguments.format, screen)
                 : results::render(study, arguments.format, screen));
}

}  // namespace

void add_isolate_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand("isolate", "Show what neighbours do to victims: the isolation matrix");
  auto arguments = std::make_shared<IsolateArguments>();
  add_database_option(*verb, arguments->database);
  add_format_option(*verb, arguments->format);
  add_selection_options(*verb, arguments->selection);
  verb->add_option("--margin", arguments->margin,
                   "The largest slowdown that counts as none, 5% or 0.05 (default: the scenario's)")
      ->check(not_empty());
  verb->add_option("--alpha", arguments->alpha, "Level of each one-sided test")->capture_default_str();
  verb->add_flag("--mitigations", arguments->mitigations,
                 "Only what helps how much: each variant of an arm against the arm that it is like");
  auto& searches = arguments->searches;
  auto* secure =
      verb->add_flag("--security", arguments->security,
                     "Run the leak searches: what one tenant reaches or finds of another and of the host");
  verb->add_option(
          "file", searches.scenario,
          "Scenario file whose arms and guest image the searches use (default: bare_metal and vm, mirror)")
      ->type_name("FILE")
      ->check(not_empty())
      ->needs(secure);
  for (const char* option : {"--margin", "--alpha", "--mitigations"}) {
    verb->get_option(option)->excludes(secure);
  }
  add_host_options(*verb, searches.options);
  for (const char* option : {"--mode", "--connect", "--privileges", "--wait", "--no-host-changes"}) {
    verb->get_option(option)->needs(secure);
  }
  verb->add_option("--report", searches.report, "Write the HTML report of the searches to FILE as well")
      ->type_name("FILE")
      ->check(not_empty())
      ->needs(secure);
  verb->add_flag("-q,--quiet", cli.quiet, "Print one summary line only, for cron")
      ->needs(secure)
      ->excludes(verb->get_option("--format"));
  verb->add_flag("--expect", searches.expect,
                 "Exit 1 where something leaks, 5 where a search is inconclusive")
      ->needs(secure);
  verb->add_flag("--devices-only", searches.options.experiment.security.devices_only,
                 "Only the searches of what a tenant leaves in the memory of an assigned device")
      ->needs(secure);
  verb->add_flag("--until-filled", searches.until_filled,
                 "Fill the assigned device, say so, and die by SIGKILL")
      ->group("")
      ->needs(secure);
  for (const char* of_stored : {"--experiment", "--scenario"}) {
    for (const char* of_run : {"file", "--mode", "--connect", "--privileges", "--wait", "--no-host-changes",
                               "--report", "--quiet", "--devices-only", "--until-filled"}) {
      verb->get_option(of_run)->excludes(verb->get_option(of_stored));
    }
  }
  verb->footer(
      "It reads the database; run fills it from a scenario with isolation. With --security it runs searches "
      "on "
      "nodes of\n"
      "its own; with --experiment or --scenario too, it shows those that are stored.\n"
      "Examples:\n"
      "  virtrain run scenarios/isolation-cpu-small.yaml\n"
      "  virtrain isolate                                   the latest experiment\n"
      "  virtrain isolate --scenario isolation-cpu --format csv\n"
      "  virtrain isolate --mitigations --format csv        what helps how much, and what it costs\n"
      "  virtrain isolate --margin 10% --format json\n"
      "  sudo virtrain isolate --security                   what tenants find of each other, in slices and "
      "VMs\n"
      "  sudo virtrain isolate --security --expect --quiet  a gate for scripts");
  verb->callback([arguments, &cli] {
    if (arguments->security) {
      security(*arguments, cli);
    } else {
      isolate(*arguments);
    }
  });
}

}  // namespace virtrain::harness
