#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "common/error.h"
#include "harness/cli/commands.h"
#include "results/exchange/exchange.h"
#include "results/store/store.h"

namespace virtrain::harness {
namespace {

using results::Store;

struct Arguments {
  std::filesystem::path database;
  results::Selection selection;
  std::vector<std::string> files;
  std::string output = "-";
};

void export_rows(const Arguments& arguments) {
  const Store store(arguments.database, Store::Mode::open);
  if (arguments.output == "-") return results::export_jsonl(store, arguments.selection, std::cout);
  std::ofstream out(arguments.output, std::ios::binary);
  results::export_jsonl(store, arguments.selection, out);
  out.close();
  if (!out) throw Error("write " + arguments.output, ErrorCode::io, "the file could not be written whole");
}

void import_files(const Arguments& arguments) {
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

}  // namespace

void add_exchange_commands(Cli& cli) {
  auto* out = cli.app.add_subcommand("export", "Write experiments as exchange JSON lines");
  auto to = std::make_shared<Arguments>();
  add_database_option(*out, to->database);
  add_selection_options(*out, to->selection);
  out->add_flag("--all", to->selection.all, "Every experiment of the database");
  out->add_option("-o,--output", to->output, "File, - for standard output")->capture_default_str();
  out->add_option("--format", "Only jsonl in this version")->check(CLI::IsMember({"jsonl"}));
  out->footer("Example:\n  virtrain export --format jsonl -o study.jsonl");
  out->callback([to] { export_rows(*to); });

  auto* in =
      cli.app.add_subcommand("import", "Read exchange JSON lines; a file with a bad line is refused whole");
  auto from = std::make_shared<Arguments>();
  add_database_option(*in, from->database);
  in->add_option("files", from->files, "Files, - for standard input")->required();
  in->footer("Example:\n  virtrain import scenarios/published/dell-r750xa.jsonl --db study.db");
  in->callback([from] { import_files(*from); });
}

}  // namespace virtrain::harness
