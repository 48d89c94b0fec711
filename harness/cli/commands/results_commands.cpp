#include <fmt/format.h>

#include "harness/cli/commands.h"
#include "results/store/store.h"
#include "results/tables/render.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct ListArguments {
  std::filesystem::path database;
  results::Format format = results::Format::table;
};

}  // namespace

void add_results_commands(Cli& cli) {
  auto* list = cli.app.add_subcommand("list", "List the experiments of a database");
  auto listed = std::make_shared<ListArguments>();
  add_database_option(*list, listed->database);
  add_format_option(*list, listed->format);
  list->footer("Example:\n  virtrain list --format csv");
  list->callback([listed] {
    const Store store(listed->database, Store::Mode::open);
    fmt::print("{}", results::render(results::experiments_table(store), listed->format, colour_on_stdout()));
  });

  auto* show = cli.app.add_subcommand("show", "Show one experiment: its trials and facts");
  auto shown = std::make_shared<ListArguments>();
  add_database_option(*show, shown->database);
  auto id = std::make_shared<std::string>();
  add_format_option(*show, shown->format);
  show->add_option("experiment,--experiment", *id, "Experiment id (default: the latest one with trials)");
  show->footer("Example:\n  virtrain show 20261120t083012-7f3a2b");
  show->callback([shown, id] {
    const Store store(shown->database, Store::Mode::open);
    const auto chosen = id->empty() ? store.select({}).back() : *id;
    fmt::print("{}",
               results::render(results::show_experiment(store, chosen), shown->format, colour_on_stdout()));
  });
}

}  // namespace virtrain::harness
