#include <fmt/format.h>

#include "common/text/text.h"
#include "harness/cli/commands.h"
#include "harness/cli/comparison_arguments.h"
#include "harness/cli/report_file.h"

namespace virtrain::harness {
namespace {

struct ReportArguments {
  std::filesystem::path database;
  std::filesystem::path output = "report.html";
  results::ReportRequest request;
  std::string margin = "2%", alpha = "0.05", sizes = reported_sizes;
};

void report(ReportArguments& arguments, const Cli& cli) {
  auto& compare = arguments.request.compare;
  compare.settings = {share("--margin", arguments.margin, 1), share("--alpha", arguments.alpha, 0.5)};
  compare.predict = node_counts(arguments.sizes);
  arguments.request.command_line = cli.command_line;
  write_report(arguments.database, arguments.request, arguments.output);
  if (arguments.output != "-") { fmt::print("{}\n", printable(arguments.output.string())); }
}

}  // namespace

void add_report_command(Cli& cli) {
  auto* verb =
      cli.app.add_subcommand("report", "Write one HTML file: verdict, charts, environment, every trial");
  auto arguments = std::make_shared<ReportArguments>();
  auto& compare = arguments->request.compare;
  add_database_option(*verb, arguments->database);
  verb->add_option("experiments,--experiment", compare.selection.experiments,
                   "Experiment ids (default: the latest one with trials)");
  verb->add_option("-o,--output", arguments->output, "File to write, - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_option("--scenario", compare.selection.scenario, "Experiments of this scenario");
  verb->add_option("--label", compare.selection.label, "Experiments with this label");
  verb->add_option("--case", compare.case_name, "This case only");
  verb->add_option("--baseline", compare.baseline, "Baseline arm")->capture_default_str();
  verb->add_option("--candidate", compare.candidate, "Candidate arm")->capture_default_str();
  verb->add_option("--margin", arguments->margin, "Equivalence margin, 2% or 0.02")->capture_default_str();
  verb->add_option("--alpha", arguments->alpha, "Level of each one-sided test")->capture_default_str();
  verb->add_option("--predict", arguments->sizes, "Predict weak scaling for these numbers of nodes")
      ->type_name("N,N,…")
      ->capture_default_str();
  verb->footer(
      "The file needs nothing else: it opens offline, prints, and shows its charts without scripts too.\n"
      "Examples:\n"
      "  virtrain report                                   the latest experiment, into report.html\n"
      "  virtrain report 20261120t083012-7f3a2b -o r.html  this one\n"
      "  virtrain report --scenario nightly -o nightly.html  all of a scenario: adds the series over its "
      "dates\n"
      "  virtrain import scenarios/published/dell-r750xa.jsonl --db d.db && virtrain report --db d.db -o "
      "dell.html");
  verb->callback([arguments, &cli] { report(*arguments, cli); });
}

}  // namespace virtrain::harness
