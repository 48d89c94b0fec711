#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/bisect/steps.h"
#include "harness/bisect/stored_settings.h"
#include "harness/cli/choices.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_scenario.h"
#include "harness/experiment/judge.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/yaml/scenario_keys.h"
#include "results/tables/render.h"

namespace virtrain::harness {
namespace {

constexpr std::int64_t least_pairs = 3;

struct BisectArguments {
  std::string change, bad;            ///< `change` is the good experiment where `bad` is given
  std::vector<std::string> switches;  ///< KEY OLD NEW, several times
  std::string case_name, arm;
  StepLimits limits;
  bool plan_only = false;
  bool yes = false;  ///< to what the stored scenarios set on this host
  results::Format format = results::Format::table;
  RunOptions options;
};

/// The course of the search so far.
struct Course {
  Search search;
  std::vector<Step> steps;
  int exit_status = 0;  ///< of what ended it early; 0: nothing did
};

std::vector<Setting> known_settings(const std::vector<std::string>& words) {
  std::vector<Setting> settings;
  for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
    if (words[i + 1] == words[i + 2]) {
      throw Error("bisect", ErrorCode::usage,
                  fmt::format("--switch {}: old and new value are the same, {}", excerpt(words[i]),
                              excerpt(words[i + 1])));
    }
    const bool is_twice = std::any_of(settings.begin(), settings.end(),
                                      [&](const Setting& one) { return one.key == words[i]; });
    if (is_twice) {
      throw Error("bisect", ErrorCode::usage,
                  fmt::format("--switch {} is given twice; give each key once", excerpt(words[i])));
    }
    const bool is_list = is_at_or_below(words[i], "devices") && words[i + 1].starts_with('[');
    settings.push_back({words[i], words[i + 1], words[i + 2], is_list});
  }
  return settings;
}

Subject read_subject(const BisectArguments& arguments) {
  const results::Store store(arguments.options.database, results::Store::Mode::open);
  const auto known = known_settings(arguments.switches);
  if (!arguments.bad.empty()) {
    return subject_of_experiments(store, arguments.change, arguments.bad, arguments.case_name, arguments.arm,
                                  known);
  }
  if (!arguments.case_name.empty() || !arguments.arm.empty()) {
    throw Error("bisect", ErrorCode::usage,
                "a change has its case and arm (--case and --arm go with GOOD BAD)");
  }
  return subject_of_change(store, arguments.change, known);
}

/// The comparison of these suspects; what the stored text does not hold is set here.
Scenario scenario_of(const Subject& subject, const Suspects& tried, const StepLimits& limits, double ratio) {
  auto scenario = decode_scenario(step_scenario(subject, tried, limits), "bisect " + subject.id, true);
  scenario.order_seed = limits.seed;
  scenario.by_test = true;
  results::Settings settings;
  settings.margin = step_margin(ratio);
  scenario.vm_vs_bare_metal = settings;
  return scenario;
}

bool is_switched(const Subject& subject, const Setting& setting) {
  const auto switched = subject.switched();
  return std::any_of(switched.begin(), switched.end(),
                     [&](const Suspected& one) { return *one.setting == setting; });
}

/// Upper bounds of the work, for people and programs.
struct Effort {
  std::string words;
  std::optional<std::int64_t> most_trials;
  std::optional<double> most_seconds;
};

/// Loss by a cause, for programs: ratio, ci_low and ci_high.
std::vector<results::Cell> loss_cells(const Course& course, const Suspects* cause) {
  using results::silent_cell;
  if (cause == nullptr) { return {{}, {}, {}}; }
  const auto& step = step_of_cause(*cause, course.steps);
  if (!step.ci) { return {silent_cell(step.ratio), {}, {}}; }
  return {silent_cell(step.ratio), silent_cell(step.ci->low), silent_cell(step.ci->high)};
}

/// Programs get no notes: every row ends with what holds for the whole search.
void add_common_cells(results::Table& table, const Subject& subject, const Course& course,
                      const Effort& effort, std::int64_t seed) {
  using results::silent_cell;
  const bool ran = !course.steps.empty();
  const auto count = ran ? std::optional(trials_of(course.steps)) : std::nullopt;
  const bool has_answer = ran || subject.switched().empty();
  const auto words = has_answer ? std::optional(answer(subject, course.search, course.steps)) : std::nullopt;
  for (const char* key :
       {"ratio", "ci_low", "ci_high", "answer", "trials", "seed", "most_trials", "most_seconds"}) {
    table.columns.push_back({key, "", false, true});
  }
  const auto columns = table.columns.size();
  for (auto& row : table.rows) {
    row.resize(columns - 5);
    for (auto&& cell : {silent_cell(words), silent_cell(count), silent_cell(seed),
                        silent_cell(effort.most_trials), silent_cell(effort.most_seconds)}) {
      row.push_back(cell);
    }
  }
}

/// Each suspect and how it stands, then what the stored scenarios set in all trials.
results::Table table_of(const Subject& subject, const std::vector<Setting>& stored, const Course& course) {
  using results::cell;
  results::Table table;
  table.columns = {{"suspect", "suspect"},
                   {.key = "before", .head = "before", .wraps = true},
                   {.key = "after", .head = "after", .wraps = true},
                   {"standing", ""},
                   {.key = "why_not", .head = "", .hide_empty = true, .wraps = true}};
  const auto& search = course.search;
  std::size_t index = 0;
  for (const auto& one : subject.switched()) {
    const auto cause = std::find_if(search.causes.begin(), search.causes.end(),
                                    [&](const Suspects& some) { return some.contains(index); });
    const bool is_cause = cause != search.causes.end();
    const bool open = search.end == SearchEnd::goes_on || search.end == SearchEnd::unclear;
    const auto* standing = course.steps.empty()                        ? "to be switched"
                           : is_cause                                  ? "cause"
                           : open && search.candidates.contains(index) ? "not ruled out"
                                                                       : "not the cause";
    table.rows.push_back(
        {cell(one.setting->key), cell(one.before), cell(one.after), cell(std::string(standing)), {}});
    const auto loss = loss_cells(course, is_cause ? &*cause : nullptr);
    table.rows.back().insert(table.rows.back().end(), loss.begin(), loss.end());
    ++index;
  }
  for (const auto& one : subject.others()) {
    table.rows.push_back({cell(one.name), cell(one.before), cell(one.after),
                          cell(std::string("cannot be switched")), cell(one.why_not)});
  }
  for (const auto& one : stored) {
    if (is_switched(subject, one)) { continue; }
    table.rows.push_back({cell(one.key),
                          cell(one.before.value_or(not_set)),
                          cell(one.after.value_or(not_set)),
                          cell(std::string("in all trials")),
                          {}});
  }
  return table;
}

/// Records of strangers may look like one's own.
[[noreturn]] void refuse_unconfirmed(const Subject& subject, const std::vector<Setting>& stored) {
  throw Error("bisect " + excerpt(subject.id), ErrorCode::usage,
              words_of_unconfirmed(stored) +
                  "\nCheck them (--plan shows them in full), then repeat the command with --yes");
}

/// Computes how much will run, and how long that takes at most.
Effort effort_of(const Subject& subject, const Scenario& first, const BisectArguments& arguments) {
  const auto comparisons = most_comparisons(subject.switched().size());
  const auto pairs = arguments.limits.pairs;
  const auto trials = 2 * pairs * static_cast<std::int64_t>(comparisons);
  const auto inventory = open_host()->inventory(first.devices.kind != DeviceKind::none);
  const auto plan = make_plan(first, inventory, expects_emulation(inventory));
  const bool known = subject.trial_seconds > 0;
  const double seconds =
      known ? subject.trial_seconds : plan.estimate_seconds / static_cast<double>(plan.trials.size());
  const auto time = [&](double of_trials) { return format_seconds(of_trials * seconds); };
  auto words = fmt::format(
      "{} in {}, {:.1f} % slower. At most {} of {} to {} pairs: {} to {} trials, about {} to {} ({} a "
      "trial, {}). Order by seed {}.",
      printable(subject.case_name), printable(subject.arm), (1 - subject.ratio) * 100,
      counted(comparisons, "comparison"), std::min(least_pairs, pairs), pairs,
      2 * std::min(least_pairs, pairs) * static_cast<std::int64_t>(comparisons), trials,
      time(static_cast<double>(2 * std::min(least_pairs, pairs)) * static_cast<double>(comparisons)),
      time(static_cast<double>(trials)), time(1), known ? "as in the stored runs" : "estimated",
      arguments.limits.seed);
  return {std::move(words), trials, static_cast<double>(trials) * seconds};
}

Step step_of(const ScenarioRun& run, const Suspects& tried, const std::vector<Step>& steps) {
  Step step;
  step.tried = tried;
  step.experiment = run.outcome.experiment;
  if (run.comparisons.empty() || !run.comparisons.front().test) { return step; }
  const auto& comparison = run.comparisons.front();
  step.ratio = comparison.test->ratio;
  step.ci = comparison.test->ci_tost;
  step.pairs = comparison.n.value_or(0);
  step.outcome = outcome_of(comparison.test, steps.empty() ? nullptr : &steps.front());
  return step;
}

/// Compares until the search ends, or a run that failed or was stopped ends it.
Course run_steps(const Subject& subject, BisectArguments& arguments) {
  Course course;
  const auto suspects = subject.switched().size();
  std::vector<Told> told;
  for (course.search = search(suspects, told); course.search.end == SearchEnd::goes_on;
       course.search = search(suspects, told)) {
    const auto& tried = course.search.next;
    const double ratio = course.steps.empty() ? subject.ratio : course.steps.front().ratio;
    const auto scenario = scenario_of(subject, tried, arguments.limits, ratio);
    ScenarioRun run;
    try {
      run = run_scenario(scenario, arguments.options);
    } catch (const Error& error) {
      if (course.steps.empty()) { throw; }
      // The results so far are printed all the same.
      log::error("the search ends early", {{"reason", error.what()}});
      course.exit_status = exit_status(error.code());
      return course;
    }
    arguments.options.experiment.wait = true;  // a search is not thrown away because somebody came between
    course.steps.push_back(step_of(run, tried, course.steps));
    told.push_back({tried, course.steps.back().outcome});
    std::cerr << printable(words_of(subject, course.steps.back())) << std::endl;
    course.exit_status = judge(run.outcome, run.comparisons, false);
    if (course.exit_status != 0) {
      course.search = search(suspects, told);
      return course;
    }
  }
  return course;
}

void bisect(BisectArguments& arguments, Cli& cli) {
  const auto subject = read_subject(arguments);
  if (!subject.doubt.empty()) { log::warning("two scenarios", {{"reason", subject.doubt}}); }
  const auto screen = screen_of_stdout();
  Course course;
  Effort effort;
  std::vector<Setting> stored;
  const auto print = [&](const std::string& sentence) {
    auto table = table_of(subject, stored, course);
    add_common_cells(table, subject, course, effort, arguments.limits.seed);
    table.notes = {printable(sentence)};
    print_result(results::render(table, arguments.format, screen));
  };
  const auto switched = subject.switched();
  if (switched.empty()) {
    print(answer(subject, {}, {}));
    cli.exit_status = exit_no_verdict;
    return;
  }
  Suspects all;
  for (std::size_t i = 0; i < switched.size(); ++i) { all.insert(i); }
  const auto first = scenario_of(subject, all, arguments.limits, subject.ratio);
  stored = settings_to_confirm(first, known_settings(arguments.switches));
  const bool is_agreed = arguments.yes || stored.empty();
  effort = effort_of(subject, first, arguments);
  if (arguments.plan_only) {
    return print(effort.words +
                 (is_agreed ? "" : " To run with the stored variables and files above, give --yes."));
  }
  if (!is_agreed) { refuse_unconfirmed(subject, stored); }
  std::cerr << effort.words << std::endl;
  auto& options = arguments.options;
  options.experiment.command_line = cli.command_line;
  options.experiment.label = "bisect " + excerpt(subject.id);
  course = run_steps(subject, arguments);
  print(answer(subject, course.search, course.steps));
  const bool verdict = course.search.end == SearchEnd::found || course.search.end == SearchEnd::nothing;
  cli.exit_status = course.exit_status != 0 ? course.exit_status : verdict ? 0 : exit_no_verdict;
}

}  // namespace

void add_bisect_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "bisect", "Find which setting caused a loss: run the fewest trials that separate the suspects");
  auto arguments = std::make_shared<BisectArguments>();
  arguments->limits.seed = static_cast<std::int64_t>(std::random_device()() & 0x7fffffffU);
  verb->add_option("change", arguments->change,
                   "Id of a change, as virtrain changes prints it; or a good experiment")
      ->required();
  verb->add_option("bad", arguments->bad, "A bad experiment, to compare with a good one in place of a change")
      ->check(not_empty());
  add_database_option(*verb, arguments->options.database);
  add_format_option(*verb, arguments->format);
  verb->add_option("--switch", arguments->switches,
                   "A setting that you suspect, with its old and new value; repeatable")
      ->type_name("KEY OLD NEW")
      ->type_size(3)
      ->allow_extra_args(false);
  verb->add_option("--case", arguments->case_name,
                   "Of two experiments: the case (default: where the loss is largest)")
      ->check(not_empty());
  verb->add_option("--arm", arguments->arm,
                   "Of two experiments: the arm (default: where the loss is largest)")
      ->check(not_empty());
  verb->add_option("--pairs", arguments->limits.pairs, "Pairs of one comparison at most; a verdict ends it")
      ->check(CLI::Range(least_pairs, results::most_looks))
      ->capture_default_str();
  verb->add_option("--seed", arguments->limits.seed,
                   "Seed of the order of trials (default: a new one, which is printed and stored)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{0x7fffffff}));
  verb->add_flag("--plan,--dry-run", arguments->plan_only, "Show what would be run; nothing is done");
  verb->add_flag("--yes", arguments->yes,
                 "Run with the environment variables and files that the stored scenarios name");
  add_host_options(*verb, arguments->options);
  verb->footer(
      "It runs pairs of trials with old and new values, and leaves out half of the suspects at a time.\n"
      "Its experiments are named SCENARIO.bisect and do not count as nightly runs.\n"
      "Records may come from strangers: variables and files of this host that a stored scenario names need\n"
      "--yes, and --plan shows them.\n"
      "Examples:\n"
      "  virtrain bisect 1f3a90c2 --plan --db nightly.db\n"
      "  virtrain bisect 1f3a90c2 --db nightly.db\n"
      "  virtrain bisect 1f3a90c2 --db nightly.db --yes    its scenario sets environment variables\n"
      "  virtrain bisect 1f3a90c2 --switch workload.env.LD_PRELOAD /opt/jemalloc-5.2.so "
      "/opt/jemalloc-5.3.so\n"
      "  virtrain bisect 20261120t020004-7f3a2b 20261121t020003-91c0de    the scenario was edited between "
      "them\n"
      "Exit codes: 0 done, 2 no such loss to bisect or no --yes, 3 unknown change, 4 this host cannot, 5 no "
      "verdict,\n"
      "  6 a trial failed, 75 busy, 129/130/143 stopped; what was measured stays");
  verb->callback([arguments, &cli] { bisect(*arguments, cli); });
}

}  // namespace virtrain::harness
