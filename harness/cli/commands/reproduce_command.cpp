#include <fmt/ostream.h>

#include <array>
#include <iostream>
#include <sstream>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "harness/cli/choices.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_scenario.h"
#include "harness/experiment/judge.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "results/exchange/exchange.h"
#include "results/reproduction/reproduction.h"
#include "results/store/canonical_json.h"
#include "study_files_embedded.h"

namespace virtrain::harness {
namespace {

/// A study whose figures and scenario ship with virtrain (scenarios/, scenarios/published/).
struct Study {
  std::string_view name;
  std::string_view published_experiment;  ///< id in `published`
  std::string_view published;             ///< exchange JSON lines
  std::string_view scenario;
  std::string_view cpu_scenario;  ///< the same placements with CPU ranks
  std::string_view source;
};

const std::array<Study, 1>& studies() {
  static const std::array<Study, 1> all{
      Study{"dell-r750xa", "dell-r750xa-published", study_files::dell_r750xa_jsonl,
            study_files::dell_r750xa_yaml, study_files::dell_r750xa_cpu_yaml,
            "ResNet-50 on Dell PowerEdge R750xa, four A100: VMs on ESXi against bare metal"}};
  return all;
}

struct ReproduceArguments {
  std::string study;
  std::string backend = "cuda";
  std::string experiment;
  std::string inventory = "/";
  results::Format format = results::Format::table;
  RunOptions options;
  bool plan_only = false;
  bool print_scenario = false;
};

const Study& find_study(const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& study : studies()) {
    if (study.name == name) { return study; }
    names.push_back(study.name);
  }
  throw Error("reproduce " + name, ErrorCode::usage,
              "there is no such study " + allowed_words(name, {names.begin(), names.end()}));
}

/// The doctor's findings on this host that stand against the study; a recorded host has no doctor.
std::string doctor_words(const ReproduceArguments& arguments) {
  std::string words;
  if (arguments.inventory != "/") { return words; }
  const auto host = open_host();
  const auto inventory = host->inventory(false);
  auto findings = host->examine(vmctl::best_mode(host->privileges()));
  for (auto& finding : host->examine_devices(std::nullopt)) { findings.push_back(std::move(finding)); }
  for (const auto& finding : findings) {
    const bool no_gpu = finding.id == "GPU-0" && finding.status == CheckStatus::skipped;
    if (blocks(finding) || no_gpu) {
      words += fmt::format("\n{}: {}{}", finding.id, finding.found,
                           finding.fix.empty() ? "" : " (" + finding.fix + ")");
    }
  }
  return words;
}

/// Puts the host's lacks and the way out into one message.
template <typename Work>
auto with_way_out(const Study& study, const ReproduceArguments& arguments, Work&& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::host_unable || arguments.backend == "cpu") { throw; }
    throw Error(error.operation(), error.code(),
                fmt::format("{}{}\nthis host cannot run the study itself; its CPU-sized version: virtrain "
                            "reproduce {} --backend cpu",
                            error.message(), doctor_words(arguments), study.name));
  }
}

void print_plan(const Scenario& scenario, const ReproduceArguments& arguments) {
  if (arguments.format != results::Format::json && arguments.format != results::Format::table) {
    throw Error("read the command line", ErrorCode::usage, "a plan is a table or json (--format)");
  }
  const auto inventory = open_host(arguments.inventory)->inventory(false);
  const auto plan = make_plan(scenario, inventory, expects_emulation(inventory));
  fmt::print(
      std::cout, "{}",
      arguments.format == results::Format::json ? dump_json(to_json(plan), 2) + "\n" : to_table(plan, false));
}

void import_published(const Study& study, const std::filesystem::path& database) {
  results::Store store(database);
  if (store.experiment(std::string(study.published_experiment))) { return; }
  std::istringstream rows{std::string(study.published)};
  results::import_jsonl(store, rows, fmt::format("{}.jsonl", study.name));
}

void print_side_by_side(const Study& study, const ReproduceArguments& arguments,
                        const std::string& experiment) {
  const results::Store store(arguments.options.database, results::Store::Mode::open);
  const auto result = results::reproduction(store, std::string(study.published_experiment), experiment);
  if (arguments.format == results::Format::json) {
    return print_result(results::canonical_json(results::to_json(result)) + "\n");
  }
  const auto screen = screen_of_stdout();
  std::vector<results::Table> tables;
  std::string words;
  if (arguments.format == results::Format::table) {
    tables = results::narrow_tables(result);
    words = printable(results::heading_of(result)) + "\n";
  } else {
    tables.push_back(results::figures_table(result));
  }
  if (arguments.format != results::Format::csv) {  // a CSV file is one table
    tables.push_back(results::differences_table(result));
  }
  for (const auto& table : tables) {
    words += (words.empty() ? "" : "\n") + results::render(table, arguments.format, screen);
  }
  print_result(words);
}

void reproduce(ReproduceArguments& arguments, Cli& cli) {
  const auto& study = find_study(arguments.study);
  const bool on_cpu = arguments.backend == "cpu";
  const std::string text(on_cpu ? study.cpu_scenario : study.scenario);
  if (arguments.print_scenario) { return fmt::print(std::cout, "{}", text); }
  const auto scenario = decode_scenario(text, fmt::format("{}{}.yaml", study.name, on_cpu ? "-cpu" : ""));
  if (arguments.plan_only) {
    return with_way_out(study, arguments, [&] { print_plan(scenario, arguments); });
  }
  if (!arguments.experiment.empty()) {
    const auto& database = arguments.options.database;
    const auto id = results::Store(database, results::Store::Mode::open).full_id(arguments.experiment);
    import_published(study, arguments.options.database);
    return print_side_by_side(study, arguments, id);
  }
  arguments.options.experiment.command_line = cli.command_line;
  const auto run = with_way_out(study, arguments, [&] { return run_scenario(scenario, arguments.options); });
  if (run.outcome.finished > 0) {
    after_run(run.outcome, [&] {
      import_published(study, arguments.options.database);
      print_side_by_side(study, arguments, run.outcome.experiment);
    });
  }
  std::cerr << run.summary << std::endl;
  cli.exit_status = judge(run.outcome, run.comparisons, scenario.vm_vs_bare_metal.has_value());
}

}  // namespace

void add_reproduce_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "reproduce", "Run a published study on this host and print its figures next to your own");
  auto arguments = std::make_shared<ReproduceArguments>();
  std::string names = "Study:";
  for (const auto& study : studies()) { names += fmt::format(" {} ({})", study.name, study.source); }
  verb->add_option("study", arguments->study, names)->required();
  verb->add_option("--backend", arguments->backend, "cuda, or cpu for the CPU-sized version")
      ->check(one_of({"cuda", "cpu"}))
      ->capture_default_str();
  verb->add_option("--experiment", arguments->experiment,
                   "Run nothing; compare this earlier run with the published figures")
      ->type_name("EXPERIMENT")
      ->check(not_empty());
  auto* plan = verb->add_flag("--plan", arguments->plan_only, "Show what would be run; nothing is done");
  verb->add_option("--inventory", arguments->inventory, "Plan for a recorded host")
      ->check(CLI::ExistingDirectory)
      ->needs(plan);
  verb->add_flag("--print-scenario", arguments->print_scenario, "Print the scenario, to change and to run");
  add_database_option(*verb, arguments->options.database);
  add_format_option(*verb, arguments->format);
  auto& options = arguments->options.experiment;
  add_label_option(*verb, options.label);
  add_host_options(*verb, arguments->options);
  verb->footer(
      "Examples:\n"
      "  virtrain reproduce dell-r750xa --plan\n"
      "  virtrain reproduce dell-r750xa --backend cpu --db study.db\n"
      "  virtrain reproduce dell-r750xa --experiment 20261120t083012-7f3a2b --format markdown\n"
      "  virtrain reproduce dell-r750xa --print-scenario > mine.yaml");
  verb->callback([arguments, &cli] { reproduce(*arguments, cli); });
}

}  // namespace virtrain::harness
