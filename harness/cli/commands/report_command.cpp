#include <fmt/ostream.h>

#include <iostream>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "harness/cli/arguments.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/cli/report_file.h"
#include "harness/experiment/judge.h"
#include "harness/scenario/decode/decode.h"
#include "harness/schedule/schedule.h"
#include "results/report/site/site.h"

namespace virtrain::harness {
namespace {

struct ReportArguments {
  std::filesystem::path database;
  std::filesystem::path output = "report.html";
  results::ReportRequest request;
  std::string schedule;
  std::filesystem::path site;
  std::size_t nights = results::SiteRequest{}.nights;
  std::string margin = "2%", alpha = "0.05", sizes = reported_sizes;
  bool own_margin = false;  ///< --margin was given
};

void report_schedule(const ReportArguments& arguments, const Cli& cli) {
  if (arguments.site.empty()) {
    throw Error("report on schedule " + excerpt(arguments.schedule), ErrorCode::usage,
                "say which folder the site goes to: --out DIR");
  }
  const auto schedule = ScheduleBook().find(arguments.schedule);
  results::SiteRequest request;
  request.schedule = schedule.name;
  const auto scenario = load_scenario(schedule.scenario);
  request.scenario = scenario.name;
  request.settings = expected_settings(scenario).value_or(results::Settings{});
  request.command_line = cli.command_line;
  request.database_option = database_option(schedule.database);
  request.nights = arguments.nights;
  const results::Store store(schedule.database, results::Store::Mode::open);
  make_site_folder(arguments.site);
  const auto written = results::write_site(store, request, arguments.site);
  for (const auto& warning : written.warnings) { log::warning(warning); }
  fmt::print(std::cout, "{}: {} written, {} unchanged\n", printable((arguments.site / "index.html").string()),
             counted(written.written, "page", "pages"), written.kept);
}

void report(ReportArguments& arguments, const Cli& cli) {
  if (!arguments.schedule.empty()) { return report_schedule(arguments, cli); }
  auto& compare = arguments.request.compare;
  compare.settings = {share("--margin", arguments.margin, 1), share("--alpha", arguments.alpha, 0.5)};
  if (arguments.own_margin) { arguments.request.isolation_margin = compare.settings.margin; }
  compare.predict = node_counts(arguments.sizes);
  arguments.request.command_line = cli.command_line;
  write_report(arguments.database, arguments.request, arguments.output);
  if (arguments.output != "-") { fmt::print(std::cout, "{}\n", printable(arguments.output.string())); }
}

void add_site_options(CLI::App& verb, ReportArguments& arguments) {
  auto* schedule = verb.add_option("--schedule", arguments.schedule,
                                   "Write a site on the runs of this schedule into --out DIR")
                       ->type_name("SCHEDULE")
                       ->check(not_empty());
  for (const char* other : {"--db", "--experiment", "--output", "--scenario", "--label", "--case",
                            "--baseline", "--candidate", "--margin", "--alpha", "--predict"}) {
    schedule->excludes(verb.get_option(other));
  }
  verb.add_option("--out", arguments.site, "Folder of the site: index.html and a page for each run")
      ->type_name("DIR")
      ->needs(schedule);
  verb.add_option("--nights", arguments.nights, "Pages for the last N runs; older pages stay")
      ->type_name("N")
      ->needs(schedule)
      ->capture_default_str();
}

}  // namespace

void add_report_command(Cli& cli) {
  auto* verb =
      cli.app.add_subcommand("report", "Write one HTML file: verdict, charts, environment, every trial");
  auto arguments = std::make_shared<ReportArguments>();
  auto& compare = arguments->request.compare;
  add_database_option(*verb, arguments->database);
  verb->add_option("experiments,--experiment", compare.selection.experiments,
                   "Experiment ids (default: the latest one with trials)")
      ->type_name("EXPERIMENT")
      ->check(not_empty());
  verb->add_option("-o,--output", arguments->output, "File to write, - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_option("--scenario", compare.selection.scenario, "Experiments of this scenario")
      ->check(not_empty());
  verb->add_option("--label", compare.selection.label, "Experiments with this label")->check(not_empty());
  verb->add_option("--case", compare.case_name, "This case only")->check(not_empty());
  verb->add_option("--baseline", compare.baseline, "Baseline arm")->check(not_empty())->capture_default_str();
  verb->add_option("--candidate", compare.candidate, "Candidate arm")
      ->check(not_empty())
      ->capture_default_str();
  auto* margin =
      verb->add_option("--margin", arguments->margin,
                       "Equivalence margin, 2% or 0.02 (of isolation: the scenario's, unless given)")
          ->capture_default_str();
  verb->add_option("--alpha", arguments->alpha, "Level of each one-sided test")->capture_default_str();
  verb->add_option("--predict", arguments->sizes, "Predict weak scaling for these numbers of nodes")
      ->type_name("N,N,…")
      ->capture_default_str();
  add_site_options(*verb, *arguments);
  verb->footer(
      "The file needs nothing else: it opens offline, prints, and shows its charts without scripts too.\n"
      "Examples:\n"
      "  virtrain report                                   the latest experiment, into report.html\n"
      "  virtrain report 20261120t083012-7f3a2b -o r.html  this one\n"
      "  virtrain report --scenario nightly -o nightly.html  all of a scenario: adds the series over its "
      "dates\n"
      "  virtrain import scenarios/published/dell-r750xa.jsonl --db d.db && virtrain report --db d.db -o "
      "dell.html\n"
      "  virtrain report --schedule nightly-cpu --out /var/www/nightly   a site for any web server or CI "
      "page");
  verb->callback([arguments, &cli, margin] {
    arguments->own_margin = margin->count() > 0;
    report(*arguments, cli);
  });
}

}  // namespace virtrain::harness
