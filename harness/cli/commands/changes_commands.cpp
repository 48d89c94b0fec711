#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "harness/experiment/judge.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/reading.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct ChangesArguments {
  std::filesystem::path database;
  std::string format = "table";
  std::filesystem::path output = "-";
  std::string series;
  bool expect = false;
  bool noise = false;
};

struct AckArguments {
  std::filesystem::path database;
  std::string change;
  std::string why;
};

/// With what commands need to find the database.
using ChangesWriter = std::function<void(const results::ChangeLog&, std::ostream&, const std::string&)>;

/// The writer of each format.
const std::map<std::string, ChangesWriter>& changes_writers() {
  const auto rendered = [](results::Format format) {
    return [format](const results::ChangeLog& log, std::ostream& out, const std::string& database_option) {
      out << results::render(results::changes_table(log, database_option), format,
                             &out == &std::cout ? screen_of_stdout() : results::Screen{});
    };
  };
  static const auto all = [&] {
    std::map<std::string, ChangesWriter> writers{
        {"junit", results::export_changes_junit},
        {"prometheus", [](const results::ChangeLog& log, std::ostream& out, const std::string&) {
           results::export_changes_prometheus(log, out);
         }}};
    for (const auto& [word, format] : by_word<results::Format>()) { writers.emplace(word, rendered(format)); }
    return writers;
  }();
  return all;
}

void write_changes(const ChangesArguments& arguments, const results::ChangeLog& log) {
  const auto option = database_option(arguments.database);
  const auto write = [&](std::ostream& out) {
    if (arguments.noise) {
      const auto format = by_word<results::Format>().at(arguments.format);
      out << results::render(results::noise_table(log), format,
                             &out == &std::cout ? screen_of_stdout() : results::Screen{});
      return;
    }
    changes_writers().at(arguments.format)(log, out, option);
  };
  if (arguments.output != "-") { return write_whole(arguments.output, write); }
  write(std::cout);
}

/// Without a series to judge the gate must not pass.
void require_series(const ChangesArguments& arguments, const results::ChangeLog& log) {
  if (!log.series.empty() || (arguments.series.empty() && !arguments.expect)) { return; }
  throw Error("look for changes", ErrorCode::not_found,
              arguments.series.empty() ? arguments.database.string() +
                                             " has no run with a figure to judge (virtrain list shows "
                                             "its experiments)"
                                       : "no series has a name with \"" + arguments.series +
                                             "\" in it (names: SCENARIO/CASE/ARM/FIGURE)");
}

void show_changes(const ChangesArguments& arguments, Cli& cli) {
  if (arguments.noise && !by_word<results::Format>().contains(arguments.format)) {
    throw Error("list the noise of series", ErrorCode::usage,
                "--noise has the formats table, json, csv and markdown, not " + arguments.format);
  }
  const Store store(arguments.database, Store::Mode::open);
  const auto log = results::read_changes(store, arguments.series);
  require_series(arguments, log);
  write_changes(arguments, log);
  if (arguments.expect && std::any_of(log.changes.begin(), log.changes.end(), results::is_alarm)) {
    cli.exit_status = exit_worse;
  }
}

}  // namespace

void add_changes_commands(Cli& cli) {
  auto* changes = cli.app.add_subcommand(
      "changes", "Lasting changes over the runs of a scenario, and what may have caused them");
  auto shown = std::make_shared<ChangesArguments>();
  add_database_option(*changes, shown->database);
  std::vector<std::string> formats;
  for (const auto& [name, writer] : changes_writers()) { formats.push_back(name); }
  changes->add_option("--format", shown->format, join(formats, ", "))
      ->type_name("FORMAT")
      ->check(one_of(formats))
      ->capture_default_str();
  changes
      ->add_option("-o,--output", shown->output, "File, written whole or not at all; - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  changes
      ->add_option("--series", shown->series, "Series with this text in their name SCENARIO/CASE/ARM/FIGURE")
      ->type_name("TEXT")
      ->check(not_empty());
  changes->add_flag("--expect", shown->expect,
                    "Exit 1 if a loss is open: confirmed, not recovered, not acknowledged");
  changes->add_flag("--noise", shown->noise,
                    "List the series: how noisy each is, and the smallest loss that can be detected");
  changes->footer(
      "Every experiment of a scenario is a run of its series. Three runs at a new level confirm a change.\n"
      "Examples:\n"
      "  virtrain changes                        all changes of all scenarios\n"
      "  virtrain changes --series /vm/ratio     those of VM against bare metal\n"
      "  virtrain changes --noise                the noise of each series\n"
      "  virtrain changes --format junit -o changes.xml    for a CI system: an open loss is a failed test\n"
      "  virtrain changes --format prometheus -o /var/lib/prometheus/node-exporter/virtrain-nightly.prom\n"
      "  virtrain ack 1f3a90c2 \"driver 580 is slower, accepted until spring\"\n"
      "Exit codes: 0; with --expect 1 where a loss is open, 3 where there is no run to judge");
  changes->callback([shown, &cli] { show_changes(*shown, cli); });

  auto* ack = cli.app.add_subcommand("ack", "Take a confirmed change for the new normal");
  auto acknowledged = std::make_shared<AckArguments>();
  add_database_option(*ack, acknowledged->database);
  ack->add_option("change", acknowledged->change, "Its id, as virtrain changes prints it")->required();
  ack->add_option("why", acknowledged->why, "Kept with the change")->required();
  ack->footer("Example:\n  virtrain ack 1f3a90c2 \"driver 580 is slower, accepted until spring\"");
  ack->callback([acknowledged] {
    Store store(acknowledged->database, Store::Mode::open);
    results::acknowledge(store, acknowledged->change, acknowledged->why, iso8601(wall_ns()));
  });
}

}  // namespace virtrain::harness
