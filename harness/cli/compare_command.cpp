#include <fmt/format.h>

#include "common/error.h"
#include "common/units.h"
#include "harness/cli/commands.h"
#include "harness/execute/judge.h"
#include "results/comparison/compare.h"
#include "results/store/store.h"
#include "results/tables/render.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct Arguments {
  std::filesystem::path database;
  results::Format format = results::Format::table;
  results::CompareRequest request;
  std::string margin = "2%", alpha = "0.05";
  bool expect = false;
};

double share(const std::string& flag, const std::string& text, double below) {
  const auto value = parse_share(text);
  if (!value || *value <= 0 || *value >= below)
    throw Error(
        "read the command line", ErrorCode::usage,
        fmt::format("{} {} is not allowed (allowed: a share such as 2% or 0.02, above 0 and below {})", flag,
                    text, below));
  return *value;
}

void compare(Arguments& arguments, Cli& cli) {
  arguments.request.settings = {share("--margin", arguments.margin, 1),
                                share("--alpha", arguments.alpha, 0.5)};
  const Store store(arguments.database, Store::Mode::open);
  const auto comparisons = results::compare(store, arguments.request);
  fmt::print("{}", results::render(comparisons, arguments.format, colour_on_stdout()));
  if (arguments.expect) cli.exit_status = judge_verdicts(comparisons);
}

}  // namespace

void add_compare_command(Cli& cli) {
  auto* verb =
      cli.app.add_subcommand("compare", "Compare two arms case by case: ratio, interval, verdict, speedup");
  auto arguments = std::make_shared<Arguments>();
  add_database_option(*verb, arguments->database);
  add_format_option(*verb, arguments->format);
  add_selection_options(*verb, arguments->request.selection);
  verb->add_option("--case", arguments->request.case_name, "This case only");
  verb->add_option("--baseline", arguments->request.baseline, "Baseline arm")->capture_default_str();
  verb->add_option("--candidate", arguments->request.candidate, "Candidate arm")->capture_default_str();
  verb->add_option("--margin", arguments->margin, "Equivalence margin, 2% or 0.02")->capture_default_str();
  verb->add_option("--alpha", arguments->alpha, "Level of each one-sided test")->capture_default_str();
  verb->add_flag("--expect", arguments->expect, "Exit 1 if a case is worse, 5 without a verdict");
  verb->footer(
      "Examples:\n  virtrain compare\n  virtrain compare --db study.db --case weak-scaling/4 --margin 1% "
      "--format json");
  verb->callback([arguments, &cli] { compare(*arguments, cli); });
}

}  // namespace virtrain::harness
