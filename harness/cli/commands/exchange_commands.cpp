#include <fmt/ostream.h>

#include <functional>
#include <iostream>
#include <map>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/new_file.h"
#include "common/model/workload.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/cli/choices.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "results/exchange/bundle/bundle.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "results/store/store.h"

namespace virtrain::harness {
namespace {

using results::Store;

// --- export

struct ExportArguments {
  std::filesystem::path database;
  results::Selection selection;
  std::string format = "jsonl";
  std::string view = "v_trial";
  std::string output = "-";
  std::string bundle;
};

using Writer = std::function<void(const Store&, const std::vector<std::string>&, std::ostream&)>;

/// The writer of each format.
std::map<std::string, Writer> writers(const ExportArguments& arguments) {
  const auto rendered = [&arguments](results::Format format) {
    return [&arguments, format](const Store& store, const std::vector<std::string>& ids, std::ostream& out) {
      out << results::render(results::view_table(store, ids, arguments.view), format);
    };
  };
  std::map<std::string, Writer> all{
      {"jsonl", [](const Store& store, const std::vector<std::string>& ids,
                   std::ostream& out) { results::export_jsonl(store, {.experiments = ids}, out); }},
      {"superbench", results::export_superbench},
      {"mlperf", results::export_mlperf},
      {"prometheus", results::export_prometheus}};
  for (const auto& [word, format] : by_word<results::Format>()) { all.emplace(word, rendered(format)); }
  return all;
}

/// The other formats have rows of their own.
void require_format_of_rows(const std::string& format) {
  const auto shown = enum_names<results::Format>();
  if (contains(shown, format)) { return; }
  throw Error(
      "read the command line", ErrorCode::usage,
      fmt::format("--format {} does not show a view (formats that do: {})", format, join(shown, ", ")));
}

void export_bundle(const ExportArguments& arguments, const Store& store,
                   const std::vector<std::string>& ids) {
  const auto report = results::write_bundle(store, ids, arguments.bundle, open_host()->log_root());
  fmt::print(std::cout, "{}: {} of {}\n", excerpt(arguments.bundle, 4096), counted(report.files, "file"),
             counted(ids.size(), "experiment"));
  for (const auto& path : report.missing) {
    fmt::print(std::cout, "missing, and listed so in it: {}\n", excerpt(path, 4096));
  }
}

void warn_of_incomplete_nodes(const Store& store, const std::vector<std::string>& ids) {
  constexpr std::size_t most_named = 5;
  auto nodes = results::superbench_incomplete_nodes(store, ids);
  if (nodes.empty()) { return; }
  const auto count = nodes.size();
  if (count > most_named) { nodes.resize(most_named); }
  log::warning(
      "nodes that took part in fewer cases than others lack metrics, which SuperBench's diagnosis reports as "
      "FailedTest",
      {{"nodes", std::to_string(count)}, {"first", excerpt(join(nodes, ", "), 4096)}});
}

/// SuperBench's and MLPerf's throughputs have no unit.
void warn_of_other_units(const ExportArguments& arguments, const Store& store,
                         const std::vector<std::string>& ids) {
  if (arguments.format != "superbench" && arguments.format != "mlperf") { return; }
  for (const auto& [unit, trials] : results::trials_in_other_units(store, ids)) {
    log::warning(
        fmt::format("--format {} cannot say a unit: trials in another than images/s are left out (--format "
                    "jsonl has them)",
                    arguments.format),
        {{"unit", printable(unit)}, {"trials", std::to_string(trials)}});
  }
}

void export_rows(const ExportArguments& arguments) {
  const Store store(arguments.database, Store::Mode::open);
  const auto ids = results::experiments_to_export(store, arguments.selection);
  if (!arguments.bundle.empty()) { return export_bundle(arguments, store, ids); }
  if (arguments.format == "superbench") { warn_of_incomplete_nodes(store, ids); }
  warn_of_other_units(arguments, store, ids);
  const auto write = [&](std::ostream& out) { writers(arguments).at(arguments.format)(store, ids, out); };
  if (arguments.output != "-") { return write_whole(arguments.output, write); }
  write(std::cout);
}

void add_export(Cli& cli) {
  auto* verb = cli.app.add_subcommand("export", "Write experiments for people and for other tools");
  auto arguments = std::make_shared<ExportArguments>();
  std::vector<std::string> formats;
  for (const auto& [name, writer] : writers(*arguments)) { formats.push_back(name); }
  add_database_option(*verb, arguments->database);
  add_selection_options(*verb, arguments->selection);
  auto* all = verb->add_flag("--all", arguments->selection.all, "Every experiment of the database");
  for (const char* some : {"--experiment", "--scenario", "--label"}) {
    all->excludes(verb->get_option(some));
  }
  verb->add_option("--format", arguments->format, join(formats, ", "))
      ->type_name("FORMAT")
      ->check(one_of(formats))
      ->capture_default_str();
  auto* view = verb->add_option("--view", arguments->view,
                                "View whose rows table, json, csv and markdown show: " +
                                    join(results::view_names(), ", "))
                   ->type_name("VIEW")
                   ->check(one_of(results::view_names()))
                   ->capture_default_str();
  auto* output =
      verb->add_option("-o,--output", arguments->output, "File, whole or not at all; - for standard output")
          ->type_name("FILE")
          ->capture_default_str();
  verb->add_option("--bundle", arguments->bundle,
                   "Everything that backs the figures, in one archive: rows, domain XML, logs, hashes")
      ->type_name("FILE.tar.gz|FILE.tar.zst")
      ->check(not_empty())
      ->excludes(output)
      ->excludes(view);
  verb->footer(
      "Examples:\n"
      "  virtrain export -o study.jsonl                      all that is known, for virtrain import\n"
      "  virtrain export --format csv --view v_rank          one row a trainer process\n"
      "  virtrain export --format prometheus -o /var/lib/prometheus/node-exporter/virtrain.prom\n"
      "  virtrain export --format superbench -o results-summary.jsonl\n"
      "  virtrain export --bundle evidence.tar.zst           rows, domain XML, logs and their hashes\n"
      "  virtrain compare --format markdown                  the comparison itself, for a pull request");
  verb->callback([arguments, view] {
    if (view->count() > 0) { require_format_of_rows(arguments->format); }
    export_rows(*arguments);
  });
}

// --- import

struct ImportArguments {
  std::filesystem::path database;
  std::vector<std::string> paths;
  std::string format = "auto";
  std::string scope;
  std::vector<std::string> columns;
  results::ImportSettings settings;
};

void import_files(ImportArguments& arguments) {
  arguments.settings.format = results::parse_file_format(arguments.format);
  arguments.settings.scope = enum_of<results::Scope>(arguments.scope);
  for (const auto& column : arguments.columns) {
    const auto at = column.rfind('=');
    if (at == std::string::npos || at + 1 == column.size()) {
      throw Error("import", ErrorCode::usage, "--map takes COLUMN=KEY, not \"" + excerpt(column) + "\"");
    }
    arguments.settings.columns[column.substr(0, at)] = column.substr(at + 1);
  }
  Store store(arguments.database);
  std::size_t failed = 0;
  const auto files = results::import_paths(store, arguments.paths, arguments.settings, std::cin);
  for (const auto& file : files) {
    const auto what = results::import_words(file.report);
    if (!file.refusal.empty()) {
      fmt::print(std::cerr, "failed: {}\n", printable(file.refusal));
      ++failed;
    } else if (file.earlier) {
      fmt::print(std::cout,
                 "{}: skipped, already in {} (imported {} from {}; to read it in another way give another "
                 "file with --db)\n",
                 excerpt(file.name, 4096), excerpt(arguments.database.string(), 4096),
                 printable(file.earlier->imported_at), excerpt(file.earlier->name, 4096));
    } else if (!file.format) {
      fmt::print(std::cout, "{}: skipped, of no format that import reads\n", excerpt(file.name, 4096));
    } else if (what.empty()) {
      fmt::print(std::cout, "{}: {}, with the file before\n", excerpt(file.name, 4096),
                 results::format_name(*file.format));
    } else {
      fmt::print(std::cout, "{}: {}: imported {}\n", excerpt(file.name, 4096),
                 results::format_name(*file.format), what);
    }
    for (const auto& note : file.report.notes) {
      fmt::print(std::cerr, "{}: note: {}\n", excerpt(file.name, 4096), printable(note));
    }
  }
  if (failed > 0) {
    fmt::print(std::cerr, "{} of {} failed and were skipped\n", failed, counted(files.size(), "file"));
  }
}

/// Options for values that other tools' files leave out.
void add_import_settings(CLI::App& verb, ImportArguments& arguments) {
  auto& settings = arguments.settings;
  const std::string group = "What the files do not say";
  const auto add = [&](const char* flag, auto& value, const std::string& words) {
    return verb.add_option(flag, value, words)->group(group);
  };
  const auto at_least = [](std::int64_t least) {
    return CLI::Range(least, std::int64_t{1} << 40).description("");
  };
  add("--experiment", settings.experiment, "Experiment id (default of a folder: its name)");
  add("--scenario", settings.scenario, "Scenario (default: the experiment)");
  add("--label", settings.label, "Label");
  add("--case", settings.case_name, "Case");
  add("--arm", settings.arm, "Arm: vm, bare_metal, …");
  add("--pair", settings.pair, "Pair; none is unpaired data")->check(at_least(0));
  add("--nodes", settings.nodes, "Nodes of a trial")->check(at_least(1));
  add("--gpus-per-node", settings.gpus_per_node, "GPUs of a node, 0 for none")->check(at_least(0));
  add("--ranks", settings.ranks, "Ranks of a trial")->check(at_least(1));
  add("--batch-size", settings.batch_size, "Images a step of one rank")->check(at_least(1));
  add("--precision", settings.precision, enum_list<Precision>())->check(one_of(enum_names<Precision>()));
  add("--virtualization", settings.virtualization, "none, kvm, kvm_nested, kvm_on_emulated or tcg")
      ->check(one_of({"none", "kvm", "kvm_nested", "kvm_on_emulated", "tcg"}));
  add("--started-at", settings.started_at, "When it ran: 2022-05-01T00:00:00Z");
  add("--scope", arguments.scope,
      "Whose throughput a figure is, where the file cannot tell: rank, tenant or trial")
      ->check(one_of({"rank", "tenant", "trial"}));
  add("--map", arguments.columns,
      "Column of any CSV file and the key that it fills (repeatable); other columns are left out")
      ->type_name("COLUMN=KEY");
  add("--collective", settings.collective,
      "What nccl-tests measured: " + join(results::collective_names(), ", "))
      ->check(one_of(results::collective_names()));
}

void add_import(Cli& cli) {
  auto* verb = cli.app.add_subcommand("import", "Read results of virtrain and of other tools");
  auto arguments = std::make_shared<ImportArguments>();
  add_database_option(*verb, arguments->database);
  verb->add_option("paths", arguments->paths,
                   "Files (also .gz and .zst, evidence bundles, other results databases) and folders, - for "
                   "standard input; all of them are imported, or nothing")
      ->type_name("FILE")
      ->required();
  auto formats = results::format_names();
  formats.insert(formats.begin(), "auto");
  verb->add_option("--format", arguments->format,
                   "auto (told by the content), " + join(results::format_names(), ", "))
      ->type_name("FORMAT")
      ->check(one_of(formats))
      ->capture_default_str();
  verb->add_flag("--skip-failed", arguments->settings.skip_failed,
                 "Import the good files and list the failed ones; exit status 0 unless all failed");
  add_import_settings(*verb, *arguments);
  verb->footer(
      "A folder may say case, arm and pair by its files' places: ARM/CASE/PAIR.log, and "
      "ARM/CASE/PAIR.TENANT.log\n"
      "where each tenant of a trial has a log of its own.\n"
      "Examples:\n"
      "  virtrain import scenarios/published/dell-r750xa.jsonl --db study.db\n"
      "  virtrain import evidence.tar.gz                     what export --bundle wrote, checksums verified\n"
      "  virtrain import colleague.db                        all experiments of another results database\n"
      "  virtrain import logs/ --skip-failed                 the good files of a sweep\n"
      "  virtrain import bare-metal.log --experiment e1 --case one-gpu --arm bare_metal --pair 1\n"
      "  virtrain import logs/                               logs/vm/weak-scaling/4/1.log and so on\n"
      "  virtrain import runs.csv --map ips=images_per_second --map where=arm --experiment e1 --case c "
      "--nodes 1 --gpus-per-node 1\n"
      "  virtrain import all_reduce_perf.txt --experiment e1 --arm vm\n"
      "  virtrain import results-summary.jsonl --experiment fleet --arm vm --gpus-per-node 8 --scope rank");
  verb->callback([arguments] { import_files(*arguments); });
}

}  // namespace

void add_exchange_commands(Cli& cli) {
  add_export(cli);
  add_import(cli);
}

}  // namespace virtrain::harness
