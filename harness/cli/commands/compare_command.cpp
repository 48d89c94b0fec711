#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "common/contains.h"
#include "common/error.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/cli/arguments.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/experiment/judge.h"
#include "results/comparison/isolation_matrix.h"
#include "results/reading/reading.h"
#include "results/store/store.h"
#include "results/tables/render.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct CompareArguments {
  std::filesystem::path database;
  results::Format format = results::Format::table;
  results::CompareRequest request;
  std::string margin = "2%", alpha = "0.05";
  std::string sizes;
  std::vector<std::string> ids;      ///< beside --experiment
  std::vector<std::string> changed;  ///< facts that were meant to change
  bool expect = false;
  bool probes = false;  ///< micro-benchmarks, also where there are trials
  results::ComparisonView view;
  bool own_margin = false, own_alpha = false;  ///< --margin, --alpha was given
  bool one_side_only = false;
};

/// Two sides of which one is a label or a host need both to be named: the other's default, an arm, would hold
/// the same trials.
void require_both_sides(const CompareArguments& arguments) {
  const auto& request = arguments.request;
  if (!arguments.one_side_only) { return; }
  for (const auto& side : {request.baseline, request.candidate}) {
    if (!side.empty() && results::parse_selector(side).beyond_arms()) {
      throw Error("read the command line", ErrorCode::usage,
                  fmt::format("{} needs its counterpart: give both --baseline and --candidate", side));
    }
  }
}

/// Which experiments the table is of: without a selection the latest one, which may have been interrupted.
std::string source_sentence(const Store& store, const results::CompareRequest& request) {
  const auto ids = results::experiments_of(store, request);
  const auto latest = ids.empty() ? std::nullopt : store.experiment(ids.back());
  if (!latest) { return ""; }
  return fmt::format("From {}{} ({}, {}).\n",
                     ids.size() == 1 ? "experiment " : counted(ids.size(), "experiment") + ", the last ",
                     excerpt(latest->id), excerpt(latest->scenario), to_string(latest->status));
}

/// Whether the request selects experiments with probes and none with trials.
bool has_probes_alone(const Store& store, const results::CompareRequest& request) {
  try {
    results::experiments_of(store, request);
    return false;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) { throw; }
  }
  return !results::probe_experiments_of(store, request).empty();
}

/// Compares micro-benchmarks in place of trials.
void compare_probes(const Store& store, const CompareArguments& arguments, Cli& cli) {
  const auto& request = arguments.request;
  if (!request.predict.empty() || request.explain || request.force) {
    throw Error(
        "compare probes", ErrorCode::usage,
        "--predict, --explain and --force are of trials, and these are micro-benchmarks; leave them out "
        "(virtrain diagnose says why collectives are slow)");
  }
  const auto study = results::compare_probes(store, request);
  fmt::print(std::cout, "{}",
             results::render(results::probe_study_table(study), arguments.format, screen_of_stdout()));
  if (arguments.expect) { cli.exit_status = judge_probes(study); }
}

/// Fails where a prediction that was asked for by name is missing.
void require_predictions(const std::vector<results::CaseComparison>& comparisons) {
  for (const auto& comparison : comparisons) {
    for (const auto& arm : comparison.arms) {
      if (!arm.prediction || arm.prediction->too_many_sizes == 0) { continue; }
      throw Error("compare", ErrorCode::bad_input,
                  fmt::format("{} is of a scaling that was measured on {} numbers of nodes (allowed with "
                              "--predict: {}); leave --predict out, or import fewer sizes to a database of "
                              "their own",
                              excerpt(comparison.case_name), arm.prediction->too_many_sizes,
                              results::most_predicted_sizes));
    }
  }
}

/// The facts that --changed names; Error(usage) for a fact that no comparison knows, or between arms, which
/// say by themselves what they change.
std::set<std::string> meant_to_change(const CompareArguments& arguments) {
  const auto refuse = [](const std::string& words) {
    throw Error("read the command line", ErrorCode::usage, "--changed: " + words);
  };
  const auto known = results::fields_with_rules();
  for (const auto& field : arguments.changed) {
    if (contains(known, field)) { continue; }
    const auto near = nearest_word(field, known);
    refuse(fmt::format("there is no property {}{} (allowed: {})", excerpt(field, 64),
                       near ? "; did you mean " + *near + "?" : "", join(known, ", ")));
  }
  const auto is_beyond_arms = [](const std::string& side) {
    return !side.empty() && results::parse_selector(side).beyond_arms();
  };
  const auto& request = arguments.request;
  if (!arguments.changed.empty() && !is_beyond_arms(request.baseline) && !is_beyond_arms(request.candidate)) {
    refuse("it needs two labels, dates, hosts or experiments (--baseline, --candidate)");
  }
  return {arguments.changed.begin(), arguments.changed.end()};
}

void compare(CompareArguments& arguments, Cli& cli) {
  auto& request = arguments.request;
  require_both_sides(arguments);
  request.changed = meant_to_change(arguments);
  request.settings = {share("--margin", arguments.margin, 1), share("--alpha", arguments.alpha, 0.5)};
  if (!arguments.sizes.empty()) { request.predict = node_counts(arguments.sizes); }
  if (arguments.format == results::Format::csv && (request.explain || !request.predict.empty())) {
    throw Error("read the command line", ErrorCode::usage,
                fmt::format("--{} has no columns in csv (take --format json)",
                            request.explain ? "explain" : "predict"));
  }
  const Store store(arguments.database, Store::Mode::open);
  if (arguments.probes || has_probes_alone(store, request)) { return compare_probes(store, arguments, cli); }
  if (const auto expected = arguments.expect ? expected_settings(store, request) : std::nullopt) {
    if (!arguments.own_margin) { request.settings.margin = expected->margin; }
    if (!arguments.own_alpha) { request.settings.alpha = expected->alpha; }
  }
  const auto comparisons = results::compare(store, request);
  require_predictions(comparisons);
  fmt::print(std::cout, "{}",
             results::render(comparisons, arguments.format, screen_of_stdout(), arguments.view));
  if (arguments.format == results::Format::table) {
    fmt::print(std::cout, "{}", source_sentence(store, request));
  }
  if (arguments.format == results::Format::table &&
      std::ranges::any_of(comparisons, &results::CaseComparison::is_beside)) {
    fmt::print(std::cout, "next: virtrain isolate{} (the matrix of victims and neighbours)\n",
               database_option(arguments.database));
  }
  if (arguments.expect) { cli.exit_status = judge_verdicts(comparisons); }
}

constexpr const char* examples =
    "A side (--baseline, --candidate) is an arm, or terms separated by commas: label:WORD, experiment:ID,\n"
    "host:NAME, scenario:NAME, date:FROM..TO (UTC, both ends included), arm:NAME. Without an arm each arm "
    "is\n"
    "compared with itself. Terms of one kind are alternatives; the trials come from the whole database, "
    "unless\n"
    "--experiment, --scenario or --label narrow it.\n"
    "\n"
    "Examples:\n"
    "  virtrain compare                                                      the latest experiment, vm / "
    "bare_metal\n"
    "  virtrain compare --db study.db --case weak-scaling/4 --margin 1% --format json\n"
    "  virtrain compare --baseline bare_metal_shared --candidate bare_metal  two other arms\n"
    "  virtrain compare --baseline label:before --candidate label:after      an upgrade, arm by arm\n"
    "  virtrain compare --baseline label:before,arm:vm --candidate label:after,arm:vm --changed kernel\n"
    "  virtrain compare --baseline host:a --candidate host:b --scenario nightly\n"
    "  virtrain compare --baseline date:2026-11-01..2026-11-10 --candidate date:2026-11-11.. --scenario "
    "nightly\n"
    "  virtrain compare --baseline label:published --candidate experiment:20261120t083012-7f3a2b\n"
    "  virtrain compare --explain                                            what the gap may come from\n"
    "  virtrain compare --scenario weak-scaling --predict 8,64,1024          throughput for more nodes\n"
    "  virtrain compare --probes --case all_reduce                           collectives, size by size\n"
    "  virtrain compare --expect                                             a gate for scripts\n"
    "\n"
    "Exit codes: 0; with --expect 1 where a case is worse (with several cases: after Holm's correction), 5 "
    "where\n"
    "one has no verdict";

}  // namespace

void add_compare_command(Cli& cli) {
  auto* verb =
      cli.app.add_subcommand("compare", "Compare two arms case by case: ratio, interval, verdict, speedup");
  auto arguments = std::make_shared<CompareArguments>();
  auto& request = arguments->request;
  add_database_option(*verb, arguments->database);
  add_format_option(*verb, arguments->format);
  add_selection_options(*verb, request.selection);
  verb->add_option("experiment", arguments->ids, "Experiment id, as --experiment")
      ->type_name("EXPERIMENT")
      ->check(not_empty());
  verb->add_option("--case", request.case_name, "This case only; of micro-benchmarks the name of one")
      ->check(not_empty());
  auto* baseline = verb->add_option("--baseline", request.baseline,
                                    "Baseline: an arm, or terms (see below); default bare_metal")
                       ->check(not_empty());
  auto* candidate =
      verb->add_option("--candidate", request.candidate,
                       "Candidate: an arm, or terms; default vm, and each variant against the arm it is like")
          ->check(not_empty());
  auto* margin = verb->add_option("--margin", arguments->margin, "Equivalence margin, 2% or 0.02")
                     ->capture_default_str();
  auto* alpha =
      verb->add_option("--alpha", arguments->alpha, "Level of each one-sided test")->capture_default_str();
  verb->add_flag("--force", request.force,
                 "Give a verdict although properties differ that must be equal; the output says so");
  verb->add_option("--changed", arguments->changed,
                   "Properties that were meant to change between two labels, dates, hosts or experiments: "
                   "kernel,driver")
      ->type_name("PROPERTY,PROPERTY,…")
      ->delimiter(',');
  verb->add_flag("--probes", arguments->probes,
                 "Compare micro-benchmarks, figure by figure; so it does where there are no trials");
  verb->add_flag("--explain", request.explain, "Rank what differs between the sides by what it may cost");
  verb->add_flag("--tenants", arguments->view.tenants,
                 "List the tenants of each case: together, and alone (JSON always does)");
  verb->add_flag("--notes", arguments->view.notes,
                 "List properties that differ and may, each with its reason (JSON always does)");
  verb->add_option("--predict", arguments->sizes, "Predict weak scaling for these numbers of nodes")
      ->type_name("N,N,…");
  verb->add_flag(
      "--expect", arguments->expect,
      "Judge by what the scenario expects (its margin and alpha, where --margin and --alpha are not "
      "given): exit 1 or 5");
  verb->footer(examples);
  verb->callback([arguments, &cli, baseline, candidate, margin, alpha] {
    auto& wanted = arguments->request.selection.experiments;
    wanted.insert(wanted.end(), arguments->ids.begin(), arguments->ids.end());
    arguments->own_margin = margin->count() > 0;
    arguments->own_alpha = alpha->count() > 0;
    arguments->one_side_only = baseline->count() + candidate->count() == 1;
    compare(*arguments, cli);
  });
}

}  // namespace virtrain::harness
