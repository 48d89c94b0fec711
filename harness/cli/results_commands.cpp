#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "common/error.h"
#include "common/log.h"
#include "common/units.h"
#include "harness/cli/commands.h"
#include "harness/execute/judge.h"
#include "results/compare.h"
#include "results/exchange.h"
#include "results/render.h"
#include "results/store.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct Common {
  std::filesystem::path database;
  results::Format format = results::Format::table;
};

struct CompareArguments : Common {
  results::CompareRequest request;
  std::string margin = "2%", alpha = "0.05";
  bool expect = false;
};

struct ExchangeArguments : Common {
  results::Selection selection;
  std::vector<std::string> files;
  std::string output = "-";
};

void add_selection(CLI::App& verb, results::Selection& selection) {
  verb.add_option("--experiment", selection.experiments,
                  "Experiment id, repeatable (default: the latest one with trials)");
  verb.add_option("--scenario", selection.scenario, "Experiments of this scenario");
  verb.add_option("--label", selection.label, "Experiments with this label");
}

double share(const std::string& flag, const std::string& text, double below) {
  const auto value = parse_share(text);
  if (!value || *value <= 0 || *value >= below)
    throw Error(
        "read the command line", ErrorCode::usage,
        fmt::format("{} {} is not allowed (allowed: a share such as 2% or 0.02, above 0 and below {})", flag,
                    text, below));
  return *value;
}

void compare(CompareArguments& arguments, Cli& cli) {
  arguments.request.settings = {share("--margin", arguments.margin, 1),
                                share("--alpha", arguments.alpha, 0.5)};
  const Store store(arguments.database, Store::Mode::open);
  const auto comparisons = results::compare(store, arguments.request);
  fmt::print("{}", results::render(comparisons, arguments.format, colour_on_stdout()));
  if (arguments.expect) cli.exit_status = judge_verdicts(comparisons);
}

void export_rows(const ExchangeArguments& arguments) {
  const Store store(arguments.database, Store::Mode::open);
  if (arguments.output == "-") return results::export_jsonl(store, arguments.selection, std::cout);
  std::ofstream out(arguments.output, std::ios::binary);
  results::export_jsonl(store, arguments.selection, out);
  out.close();
  if (!out) throw Error("write " + arguments.output, ErrorCode::io, "the file could not be written whole");
}

void import_files(const ExchangeArguments& arguments) {
  Store store(arguments.database);
  for (const auto& path : arguments.files) {
    std::ifstream file;
    if (path != "-") file.open(path, std::ios::binary);
    if (path != "-" && !file)
      throw Error("import " + path, ErrorCode::bad_input, path + ":1:1: the file cannot be read");
    const auto report =
        results::import_jsonl(store, path == "-" ? std::cin : file, path == "-" ? "<stdin>" : path);
    fmt::print("{}: {} trials in {} experiments imported\n", path, report.trials, report.experiments);
  }
}

template <typename Arguments>
std::shared_ptr<Arguments> add_verb(CLI::App& verb) {
  auto arguments = std::make_shared<Arguments>();
  add_database_option(verb, arguments->database);
  return arguments;
}

void add_compare(Cli& cli) {
  auto* verb =
      cli.app.add_subcommand("compare", "Compare two arms case by case: ratio, interval, verdict, speedup");
  auto arguments = add_verb<CompareArguments>(*verb);
  add_format_option(*verb, arguments->format);
  add_selection(*verb, arguments->request.selection);
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

void add_exchange(Cli& cli) {
  auto* out = cli.app.add_subcommand("export", "Write experiments as exchange JSON lines");
  auto to = add_verb<ExchangeArguments>(*out);
  add_selection(*out, to->selection);
  out->add_flag("--all", to->selection.all, "Every experiment of the database");
  out->add_option("-o,--output", to->output, "File, - for standard output")->capture_default_str();
  out->add_option("--format", "Only jsonl in this version")->check(CLI::IsMember({"jsonl"}));
  out->footer("Example:\n  virtrain export --format jsonl -o study.jsonl");
  out->callback([to] { export_rows(*to); });

  auto* in =
      cli.app.add_subcommand("import", "Read exchange JSON lines; a file with a bad line is refused whole");
  auto from = add_verb<ExchangeArguments>(*in);
  in->add_option("files", from->files, "Files, - for standard input")->required();
  in->footer("Example:\n  virtrain import scenarios/published/dell-r750xa.jsonl --db study.db");
  in->callback([from] { import_files(*from); });
}

}  // namespace

void add_results_commands(Cli& cli) {
  auto* list = cli.app.add_subcommand("list", "List the experiments of a database");
  auto listed = add_verb<Common>(*list);
  add_format_option(*list, listed->format);
  list->footer("Example:\n  virtrain list --format csv");
  list->callback([listed] {
    const Store store(listed->database, Store::Mode::open);
    fmt::print("{}", results::render(results::experiments_table(store), listed->format, colour_on_stdout()));
  });

  auto* show = cli.app.add_subcommand("show", "Show one experiment: its trials and facts");
  auto shown = add_verb<Common>(*show);
  auto id = std::make_shared<std::string>();
  add_format_option(*show, shown->format);
  show->add_option("experiment", *id, "Experiment id (default: the latest one with trials)");
  show->footer("Example:\n  virtrain show 20261120t083012-7f3a2b");
  show->callback([shown, id] {
    const Store store(shown->database, Store::Mode::open);
    const auto chosen = id->empty() ? store.select({}).back() : *id;
    fmt::print("{}",
               results::render(results::show_experiment(store, chosen), shown->format, colour_on_stdout()));
  });
  add_compare(cli);
  add_exchange(cli);
}

}  // namespace virtrain::harness
