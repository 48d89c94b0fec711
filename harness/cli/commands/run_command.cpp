#include <iostream>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/system/log.h"
#include "harness/bisect/stored_settings.h"
#include "harness/cli/arguments.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/leak_searches.h"
#include "harness/cli/report_file.h"
#include "harness/cli/run_scenario.h"
#include "harness/cli/slurm_allocation.h"
#include "harness/experiment/judge.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/decode/hosts.h"
#include "results/reading/reading.h"
#include "results/tables/isolation_table.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

struct RunArguments {
  ScenarioArguments scenario;
  std::string resumed;  ///< beginning of an experiment's id; empty: none
  results::Format format = results::Format::table;
  HostsArguments hosts;
  RunOptions options;
  SlurmArguments slurm;
  std::string report;  ///< file; empty: none
  bool expect = false;
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

/// Records of strangers may look like one's own: what a stored scenario sets on this host is agreed to first.
void require_agreement(const Scenario& stored, const RunArguments& arguments) {
  const auto settings = settings_to_confirm(stored);
  if (settings.empty() || arguments.scenario.large_sweeps) { return; }
  throw Error("resume " + arguments.options.resumed, ErrorCode::usage,
              words_of_unconfirmed(settings) + "\nCheck them, then repeat the command with --yes");
}

/// The scenario of the experiment to resume; notes which of its pairs have finished in all arms.
Scenario resumed_scenario(RunArguments& arguments) {
  const results::Store store(arguments.options.database, results::Store::Mode::open);
  const auto id = store.full_id(arguments.resumed);
  const auto experiment = store.experiment(id).value();
  const auto refuse = [&](const std::string& words) { throw Error("resume " + id, ErrorCode::usage, words); };
  if (experiment.scenario_text.empty()) { refuse("it was imported, and no scenario of it is stored"); }
  if (experiment.status == Status::running) {
    refuse("it is running (if its process is gone, virtrain clean marks it as interrupted)");
  }
  auto scenario =
      decode_scenario(experiment.scenario_text, "the scenario of " + id, arguments.scenario.large_sweeps);
  if (scenario.until) { refuse("its pairs are looked at until there is a verdict, which one run has to do"); }
  std::map<std::pair<std::string, std::int64_t>, std::size_t> finished;
  for (const auto& trial : store.trials(id)) {
    if (trial.status == Status::finished && trial.pair) { ++finished[{trial.case_name, *trial.pair}]; }
  }
  auto& options = arguments.options;
  for (const auto& [pair, arms] : finished) {
    if (arms >= scenario.arms.size()) { options.done.insert(pair); }
  }
  if (!store.leak_searches(id).empty()) { scenario.security = {}; }
  if (options.experiment.label.empty()) { options.experiment.label = experiment.label; }
  options.resumed = id;
  return scenario;
}

/// Where to read on.
std::string where_it_is(const RunArguments& arguments, const std::string& experiment, bool reported,
                        bool isolation) {
  auto line = "database: " + arguments.options.database.string();
  if (reported && !arguments.report.empty()) { line += ", report: " + arguments.report; }
  auto option = database_option(arguments.options.database);
  if (!arguments.options.resumed.empty()) {
    option = fmt::format(" --experiment {} --experiment {}{}", experiment, arguments.options.resumed, option);
  }
  if (isolation) { return line + "\nnext: virtrain isolate --json" + option + " (all figures)\n"; }
  return line + "\nnext: virtrain compare --explain" + option + " (what may explain the gaps)\n";
}

/// The figures, the report and where to read on; false where the report could not be written.
bool print_run(const RunArguments& arguments, const Scenario& scenario, const ScenarioRun& run,
               const Cli& cli) {
  if (run.comparisons.empty()) { return true; }
  const bool is_table = arguments.format == results::Format::table;
  if (!cli.quiet) {
    const auto screen = screen_of_stdout();
    print_result(scenario.isolation
                     ? isolation_of(arguments.options, run.outcome, arguments.format, screen)
                     : results::render(run.comparisons, arguments.format, screen, {.brief = true}));
  }
  const bool reported = arguments.report.empty() || make_report(arguments, run.request, cli);
  if (!cli.quiet && is_table) {
    print_result(where_it_is(arguments, run.outcome.experiment, reported, scenario.isolation.has_value()));
  }
  return reported;
}

/// Prints the searches that were stored, for people: programs get one document, which the comparison is. With
/// --expect the searches decide, unless something worse has.
void tell_security(const RunArguments& arguments, const std::string& experiment, Cli& cli) {
  const results::Store store(arguments.options.database, results::Store::Mode::open);
  const auto searches = store.leak_searches(experiment);
  const bool for_programs =
      arguments.format == results::Format::json || arguments.format == results::Format::csv;
  if (!cli.quiet && !searches.empty()) {
    if (for_programs) {
      log::info("the leak searches are stored; show them with virtrain isolate --security --experiment " +
                experiment);
    } else {
      print_security(store, {experiment}, arguments.format);
    }
  }
  if (!arguments.expect || (cli.exit_status != 0 && cli.exit_status != exit_no_verdict)) { return; }
  const int status = judge_security(searches);
  cli.exit_status = status == exit_worse ? status : std::max(cli.exit_status, status);
}

void run(RunArguments& arguments, Cli& cli) {
  auto scenario = arguments.resumed.empty() ? load(arguments.scenario) : resumed_scenario(arguments);
  take_hosts(arguments.hosts, scenario);
  arguments.options.skip_unreachable = arguments.hosts.skip_unreachable;
  if (arguments.options.done.size() >= scenario.cases.size() * static_cast<std::size_t>(scenario.pairs)) {
    print_result(
        fmt::format("all pairs of {} have finished: there is nothing to run\n", arguments.options.resumed));
    return;
  }
  if (!arguments.resumed.empty()) { require_agreement(scenario, arguments); }
  if (!arguments.report.empty()) { require_report_place(arguments.report); }
  auto& options = arguments.options;
  const auto take = [&](HostList hosts) {
    require_network(hosts, arguments.slurm);
    set_hosts(scenario, std::move(hosts));
  };
  if (const auto status =
          take_allocation(arguments.slurm, {options.experiment.wait, options.elevation}, take)) {
    cli.exit_status = *status;
    return;
  }
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
  auto* scenario = add_scenario_arguments(*verb, arguments->scenario);
  auto* resumed =
      verb->add_option("--resume", arguments->resumed,
                       "Run what failed or was interrupted in this experiment, pair by pair, as another "
                       "experiment of its scenario and label")
          ->type_name("EXPERIMENT")
          ->check(not_empty())
          ->excludes(scenario)
          ->excludes("--set")
          ->excludes("--case");
  verb->get_option("--yes")->description(
      "Accept a sweep of more than 10,000 trials; with --resume, what the stored scenario sets on this host");
  add_database_option(*verb, arguments->options.database);
  add_format_option(*verb, arguments->format);
  add_label_option(*verb, arguments->options.experiment.label);
  add_host_options(*verb, arguments->options);
  auto* hosts = add_hosts_options(*verb, arguments->hosts)->excludes("--privileges");
  add_slurm_options(*verb, arguments->slurm)->excludes(hosts);
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
  verb->footer(
      "Examples:\n"
      "  virtrain run quickstart\n"
      "  virtrain run quickstart --case weak-scaling/2 --set pairs=3\n"
      "  virtrain run --resume 20261129t0921\n"
      "  virtrain run scenarios/dell-r750xa.yaml --label driver-580 --db study.db --report study.html\n"
      "  virtrain run weak-scaling-hosts --hosts hosts.yaml\n"
      "  virtrain run nightly.yaml --quiet --wait --expect\n"
      "  virtrain run weak-scaling.yaml --slurm \"-N4 --gpus-per-node=2 --exclusive\" --slurm-network "
      "vxlan:ib0\n"
      "Exit codes: 0 done, 1 an expectation failed, 3 bad scenario, 4 this host cannot, 5 no verdict,\n"
      "  6 a trial failed, 75 busy, 129/130/143 stopped by SIGHUP, SIGINT or SIGTERM");
  verb->callback([scenario, resumed, arguments, &cli] {
    if (scenario->empty() && resumed->empty()) { throw CLI::RequiredError("scenario"); }
    run(*arguments, cli);
  });
}

}  // namespace virtrain::harness
