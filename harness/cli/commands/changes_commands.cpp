#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/system/time.h"
#include "harness/cli/commands.h"
#include "results/changes/read_changes.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct ChangesArguments {
  std::filesystem::path database;
  results::Format format = results::Format::table;
  std::string series;
  bool expect = false;
};

struct AckArguments {
  std::filesystem::path database;
  std::string change;
  std::string why;
};

void show_changes(const ChangesArguments& arguments, Cli& cli) {
  const Store store(arguments.database, Store::Mode::open);
  const auto log = results::read_changes(store, arguments.series);
  if (!arguments.series.empty() && log.series.empty()) {
    throw Error(
        "look for changes", ErrorCode::not_found,
        "no series has a name with \"" + arguments.series + "\" in it (names: SCENARIO/CASE/ARM/FIGURE)");
  }
  fmt::print("{}", results::render(results::changes_table(log), arguments.format, colour_on_stdout()));
  if (arguments.expect && std::any_of(log.changes.begin(), log.changes.end(), results::is_alarm)) {
    cli.exit_status = 1;
  }
}

}  // namespace

void add_changes_commands(Cli& cli) {
  auto* changes = cli.app.add_subcommand(
      "changes", "Lasting changes over the nights of a scenario, and what may have caused them");
  auto shown = std::make_shared<ChangesArguments>();
  add_database_option(*changes, shown->database);
  add_format_option(*changes, shown->format);
  changes
      ->add_option("--series", shown->series, "Series with this text in their name SCENARIO/CASE/ARM/FIGURE")
      ->type_name("TEXT");
  changes->add_flag("--expect", shown->expect,
                    "Exit 1 if a loss is open: confirmed, not mended, not acknowledged");
  changes->footer(
      "Every experiment of a scenario is a night. Three nights at a new level confirm a change.\n"
      "Examples:\n"
      "  virtrain changes                        all changes of all scenarios\n"
      "  virtrain changes --series /vm/ratio     those of VM against bare metal\n"
      "  virtrain ack 1f3a90c2 \"driver 580 is slower, accepted until spring\"");
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
