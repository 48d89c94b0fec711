#include <iostream>

#include "common/error.h"
#include "common/system/log.h"
#include "harness/cli/commands.h"
#include "harness/cli/comparison_arguments.h"
#include "harness/cli/help/choices.h"
#include "harness/cli/report_file.h"
#include "harness/cli/run_scenario.h"
#include "harness/cli/security_probes.h"
#include "harness/cli/shipped_scenarios.h"
#include "harness/experiment/judge.h"
#include "harness/scenario/decode/decode.h"
#include "results/comparison/mitigation.h"
#include "results/tables/mitigation_table.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

struct RunArguments {
  std::string scenario;
  results::Format format = results::Format::table;
  RunOptions options;
  std::string report;  ///< file; empty: none
  bool expect = false;
  bool large_sweeps = false;
};

/// False where it cannot be written: what was measured is told and judged all the same.
bool make_report(const RunArguments& arguments, const results::CompareRequest& request, const Cli& cli) {
  results::ReportRequest wanted{request, cli.command_line};
  wanted.compare.predict = node_counts(reported_sizes);
  try {
    write_report(arguments.options.database, wanted, arguments.report);
  } catch (const Error& error) {
    log::error("could not write the report; the results are saved, retry with virtrain report",
               {{"reason", error.what()}});
    return false;
  }
  return true;
}

/// The matrix of victims and neighbours from the database, and for people what helps how much.
std::string isolation_of(const RunOptions& options, const ExperimentOutcome& outcome, results::Format format,
                         const results::Screen& screen) {
  const results::Store store(options.database, results::Store::Mode::open);
  const auto study = results::isolation_study(store, {outcome.experiment});
  return results::render(study, format, screen);
}

/// Where to read on.
std::string where_it_is(const RunArguments& arguments, bool reported, bool isolation) {
  auto line = "database: " + arguments.options.database.string();
  if (reported && !arguments.report.empty()) { line += ", report: " + arguments.report; }
  const auto option = database_option(arguments.options.database);
  if (isolation) { return line + "\nnext: virtrain isolate --json" + option + " (all figures)\n"; }
  return line + "\nnext: virtrain compare --explain" + option + " (all notes, and what explains the gaps)\n";
}

/// The figures, the report and where to read on; false where the report could not be written.
bool print_run(const RunArguments& arguments, const Scenario& scenario, const ScenarioRun& run,
               const Cli& cli) {
  if (run.comparisons.empty()) { return true; }
  const bool is_table = arguments.format == results::Format::table;
  if (!cli.quiet) {
    const auto screen = screen_of_stdout();
    print_result(scenario.isolation ? isolation_of(arguments.options, run.outcome, arguments.format, screen)
                 : is_table
                     ? results::render(results::summary_table(run.comparisons), arguments.format, screen)
                     : results::render(run.comparisons, arguments.format));
  }
  const bool reported = arguments.report.empty() || make_report(arguments, run.request, cli);
  if (!cli.quiet && is_table) {
    print_result(where_it_is(arguments, reported, scenario.isolation.has_value()));
  }
  return reported;
}

/// Prints the probes that were stored, for people: programs get one document, which the comparison is. With
/// --expect the probes decide, unless something worse has.
void tell_security(const RunArguments& arguments, const std::string& experiment, Cli& cli) {
  const results::Store store(arguments.options.database, results::Store::Mode::open);
  const auto probes = store.security_probes(experiment);
  const bool for_programs =
      arguments.format == results::Format::json || arguments.format == results::Format::csv;
  if (!cli.quiet && !probes.empty()) {
    if (for_programs) {
      log::info("the security probes are stored; show them with virtrain isolate --security --experiment " +
                experiment);
    } else {
      print_security(store, {experiment}, arguments.format);
    }
  }
  if (!arguments.expect || (cli.exit_status != 0 && cli.exit_status != exit_no_verdict)) { return; }
  const int status = judge_security(probes);
  cli.exit_status = status == exit_worse ? status : std::max(cli.exit_status, status);
}

void run(RunArguments& arguments, Cli& cli) {
  const auto scenario = load_scenario(scenario_path(arguments.scenario), arguments.large_sweeps);
  if (!arguments.report.empty()) { require_report_place(arguments.report); }
  auto& options = arguments.options;
  options.quiet = cli.quiet;
  options.experiment.command_line = cli.command_line;
  const auto run = run_scenario(scenario, options);
  cli.exit_status =
      judge(run.outcome, run.comparisons, scenario.vm_vs_bare_metal.has_value() || arguments.expect);
  bool reported = true;
  after_run(run.outcome, [&] { reported = print_run(arguments, scenario, run, cli); });
  if (options.quiet) {
    print_result(run.summary + "\n");
  } else {
    std::cerr << run.summary << std::endl;
  }
  if (scenario.security) {
    after_run(run.outcome, [&] { tell_security(arguments, run.outcome.experiment, cli); });
  }
  if (!reported && cli.exit_status == 0) { cli.exit_status = exit_status(ErrorCode::io); }
}

}  // namespace

void add_run_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand("run", "Run a scenario: provision, train, measure, compare, tear down");
  auto arguments = std::make_shared<RunArguments>();
  verb->add_option("scenario", arguments->scenario, scenario_help)->type_name("FILE")->required();
  add_database_option(*verb, arguments->options.database);
  add_format_option(*verb, arguments->format);
  add_label_option(*verb, arguments->options.experiment.label);
  add_host_options(*verb, arguments->options);
  verb->add_flag("--fail-fast", arguments->options.experiment.fail_fast,
                 "The first failed trial ends the run");
  verb->add_option("--report", arguments->report, "Write the HTML report of this run to FILE as well")
      ->type_name("FILE")
      ->check(not_empty())
      ->take_last();
  verb->add_flag("-q,--quiet", cli.quiet, "Print one summary line only, for cron")
      ->excludes(verb->get_option("--format"));
  verb->add_flag("--expect", arguments->expect,
                 "Exit 1 if a VM is worse than bare metal, 5 without a verdict");
  add_large_sweeps_flag(*verb, arguments->large_sweeps);
  verb->footer(
      "Examples:\n"
      "  virtrain run quickstart\n"
      "  virtrain run scenarios/dell-r750xa.yaml --label driver-580 --db study.db --report study.html\n"
      "  virtrain run nightly.yaml --quiet --wait --expect\n"
      "Exit codes: 0 done, 1 an expectation failed, 3 bad scenario, 4 this host cannot, 5 no verdict,\n"
      "  6 a trial failed, 75 busy, 129/130/143 stopped by SIGHUP, SIGINT or SIGTERM");
  verb->callback([arguments, &cli] { run(*arguments, cli); });
}

}  // namespace virtrain::harness
