#include <fmt/ostream.h>

#include <iostream>

#include "harness/cli/choices.h"
#include "harness/cli/commands.h"
#include "results/store/store.h"
#include "results/tables/hosts_table.h"
#include "results/tables/render.h"
#include "results/tables/tables.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct ListArguments {
  std::filesystem::path database;
  results::Format format = results::Format::table;
};

/// The latest one that has trials (or probes, if those are wanted), else the latest one with probes.
std::string latest_experiment(const Store& store, bool with_probes) {
  std::string with_trials, with_figures;
  for (const auto& one : store.list_experiments()) {
    if (one.trials > 0) { with_trials = one.experiment.id; }
    if (one.probes > 0) { with_figures = one.experiment.id; }
  }
  if (!with_figures.empty() && (with_probes || with_trials.empty())) { return with_figures; }
  return store.select({}).back();  // published figures last, or words on why there is none
}

}  // namespace

void add_results_commands(Cli& cli) {
  auto* list = cli.app.add_subcommand("list", "List the experiments of a database");
  auto listed = std::make_shared<ListArguments>();
  add_database_option(*list, listed->database);
  add_format_option(*list, listed->format);
  list->footer("Example:\n  virtrain list --format csv");
  list->callback([listed] {
    const Store store(listed->database, Store::Mode::open);
    fmt::print(std::cout, "{}",
               results::render(results::experiments_table(store), listed->format, screen_of_stdout()));
  });

  auto* show = cli.app.add_subcommand("show", "Show one experiment: its trials and its host's properties");
  auto shown = std::make_shared<ListArguments>();
  add_database_option(*show, shown->database);
  auto id = std::make_shared<std::string>();
  auto with_probes = std::make_shared<bool>(false);
  auto with_figures = std::make_shared<bool>(false);
  auto with_packages = std::make_shared<bool>(false);
  auto with_hosts = std::make_shared<bool>(false);
  add_format_option(*show, shown->format);
  show->add_option("experiment,--experiment", *id, "Experiment id (default: the latest one with trials)")
      ->type_name("EXPERIMENT")
      ->check(not_empty());
  show->add_flag("--probes", *with_probes, "Its probes instead: bandwidths and rates by arm");
  show->add_flag("--hosts", *with_hosts,
                 "Its hosts instead, where it ran on several: how fast each computes, and the slowest")
      ->excludes("--probes");
  show->add_flag("--figures", *with_figures,
                 "Figures of its jobs instead, other than the throughput, by case and arm")
      ->excludes("--probes")
      ->excludes("--hosts");
  show->add_flag("--packages", *with_packages,
                 "Also the guests' packages with their versions, and long properties in full; so does -v");
  show->footer("Examples:\n  virtrain show 20261120t083012-7f3a2b\n  virtrain show --probes");
  show->callback([shown, id, with_probes, with_figures, with_packages, with_hosts, &cli] {
    const Store store(shown->database, Store::Mode::open);
    const auto chosen = id->empty() ? latest_experiment(store, *with_probes) : store.full_id(*id);
    const auto table = *with_probes    ? results::probes_table(store, chosen)
                       : *with_figures ? results::figures_table(store, chosen)
                       : *with_hosts   ? results::hosts_table(store, chosen)
                                     : results::show_experiment(store, chosen, *with_packages || cli.verbose);
    fmt::print(std::cout, "{}", results::render(table, shown->format, screen_of_stdout()));
  });
}

}  // namespace virtrain::harness
