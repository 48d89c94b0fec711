#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/error.h"
#include "common/log.h"
#include "common/time.h"
#include "common/units.h"
#include "harness/cli/commands.h"
#include "harness/execute/experiment.h"
#include "harness/execute/judge.h"
#include "harness/execute/preflight.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode.h"
#include "results/comparison/compare.h"
#include "vmctl/inventory.h"
#include "vmctl/leases.h"

namespace virtrain::harness {
namespace {

struct RunArguments {
  std::string scenario;
  std::filesystem::path database;
  results::Format format = results::Format::table;
  ExperimentOptions options;
  bool quiet = false;
  bool expect = false;
};

/// A terminal that was closed or a reader that has gone must not decide how an experiment ends, so what
/// cannot be written is left out.
void write_to(std::FILE* stream, const std::string& text) {
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

/// One line that is written over on a terminal; nothing elsewhere, where logs say enough.
void show_progress(const std::string& line) {
  write_to(stderr, "\r\033[K" + line);
}

std::string summary_line(const Scenario& scenario, const ExperimentOutcome& outcome, std::int64_t took_ns) {
  return fmt::format("virtrain {} {}: {} trials finished, {} failed{}{} in {}", scenario.name,
                     outcome.experiment, outcome.finished, outcome.failed,
                     outcome.stop_signal != 0 ? ", interrupted" : "",
                     outcome.first_failure.empty()
                         ? ""
                         : " (" + outcome.first_failure.substr(0, outcome.first_failure.find('\n')) + ")",
                     format_duration(took_ns));
}

/// Where a scenario has no VMs, its other arms are what there is to compare.
void choose_arms(const std::vector<std::string>& arms, results::CompareRequest& request) {
  const auto has = [&](const std::string& arm) {
    return std::find(arms.begin(), arms.end(), arm) != arms.end();
  };
  if (has(request.baseline) && has(request.candidate)) return;
  if (arms.size() < 2) return;
  if (!has(request.baseline)) request.baseline = kArmBareMetalShared;
  if (!has(request.candidate)) request.candidate = kArmBareMetalShared;
}

/// Everything that is printed comes from the database.
std::vector<results::CaseComparison> compared(const RunArguments& arguments, const ExperimentOutcome& outcome,
                                              const Scenario& scenario) {
  if (outcome.finished == 0) return {};
  const results::Store store(arguments.database, results::Store::Mode::open);
  results::CompareRequest request;
  request.selection.experiments = {outcome.experiment};
  choose_arms(scenario.arms, request);
  if (scenario.vm_vs_bare_metal)
    request.settings = {scenario.vm_vs_bare_metal->margin, scenario.vm_vs_bare_metal->alpha};
  return results::compare(store, request);
}

void run(RunArguments& arguments, Cli& cli) {
  const auto scenario = load_scenario(arguments.scenario);
  auto inventory = vmctl::load_inventory();
  inventory.leased_cores = vmctl::LeaseJournal().leased_cores();
  const auto plan = make_plan(scenario, inventory, expects_emulation(inventory));
  check_host(scenario, inventory, arguments.options.connect_uri);

  const bool terminal = ::isatty(STDERR_FILENO) == 1 && !arguments.quiet;
  arguments.options.command_line = cli.command_line;
  // The id is the first line on stderr, so that whoever reads along knows what to ask for.
  arguments.options.on_id = [&plan](const std::string& id) {
    write_to(stderr, id + "\n");
    for (const auto& warning : plan.warnings) log::warning(warning);
  };
  if (terminal) arguments.options.progress = show_progress;
  const std::int64_t began_ns = monotonic_ns();
  const auto outcome = run_experiment(scenario, plan, arguments.database, arguments.options);
  if (terminal) show_progress("");

  const auto comparisons = compared(arguments, outcome, scenario);
  if (!arguments.quiet && !comparisons.empty()) {
    auto text = results::render(comparisons, arguments.format, colour_on_stdout());
    if (arguments.format == results::Format::table)
      text += fmt::format("database: {}\n", arguments.database.string());
    write_to(stdout, text);
  }
  const auto summary = summary_line(scenario, outcome, monotonic_ns() - began_ns);
  write_to(arguments.quiet ? stdout : stderr, summary + "\n");
  if (std::ferror(stdout) != 0)
    log::warning("the results are stored but could not be printed; virtrain compare shows them");
  cli.exit_status = judge(outcome, comparisons, scenario.vm_vs_bare_metal.has_value() || arguments.expect);
}

}  // namespace

void add_run_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand("run", "Run a scenario: provision, train, measure, compare, tear down");
  auto arguments = std::make_shared<RunArguments>();
  verb->add_option("scenario", arguments->scenario, "Scenario file, - for standard input")->required();
  add_database_option(*verb, arguments->database);
  add_format_option(*verb, arguments->format);
  verb->add_option("--label", arguments->options.label,
                   "A word kept with the experiment, to compare by later");
  verb->add_option("--connect", arguments->options.connect_uri, "libvirt URI")
      ->type_name("URI")
      ->capture_default_str();
  verb->add_flag("--wait", arguments->options.wait,
                 "Wait for busy cores and devices instead of exiting with 75");
  verb->add_flag("--fail-fast", arguments->options.fail_fast, "The first failed trial ends the run");
  verb->add_flag("--quiet", arguments->quiet, "Print one summary line only, for cron");
  verb->add_flag("--expect", arguments->expect,
                 "Exit 1 if a VM is worse than bare metal, 5 without a verdict");
  verb->footer(
      "Examples:\n"
      "  virtrain run scenarios/quickstart.yaml\n"
      "  virtrain run scenarios/dell-r750xa.yaml --label driver-580 --db study.db\n"
      "  virtrain run nightly.yaml --quiet --wait --expect\n"
      "Exit codes: 0 done, 1 an expectation failed, 3 bad scenario, 4 this host cannot, 5 no verdict,\n"
      "  6 a trial failed, 75 busy, 129/130/143 stopped by SIGHUP, SIGINT or SIGTERM");
  verb->callback([arguments, &cli] { run(*arguments, cli); });
}

}  // namespace virtrain::harness
