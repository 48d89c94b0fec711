#include <fmt/ostream.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "common/error.h"
#include "common/system/log.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/experiment/diagnosed_host.h"
#include "results/diagnosis/diagnosis_table.h"
#include "results/diagnosis/read_diagnosis.h"

namespace virtrain::harness {
namespace {

struct DiagnoseArguments {
  std::vector<std::string> files, baseline;
  bool is_of_host = false;
  std::string inventory;           ///< empty: none
  std::filesystem::path database;  ///< likewise
  results::Format format = results::Format::table;
};

results::DiagnosedSide read_side(const std::vector<std::string>& files) {
  std::vector<std::string> skipped;
  auto side = results::read_side(files, std::cin, skipped);
  for (const auto& file : skipped) {
    log::warning(
        "nothing that diagnose knows is in it (NCCL's lines, figures of a known tool, nvidia-smi topo -m, "
        "lspci "
        "-vvv, virsh dumpxml); it is passed over",
        {{"file", file}});
  }
  return side;
}

results::DiagnosedHost look_at(const std::string& root) {
  const auto host = open_host(root);
  return diagnosed_host(host->inventory(false), host->examine_devices(std::nullopt));
}

results::DiagnosedSide diagnosed_side(const DiagnoseArguments& arguments) {
  results::DiagnosedSide side;
  if (!arguments.files.empty()) { side = read_side(arguments.files); }
  if (arguments.is_of_host) { side.host = look_at("/"); }
  if (!arguments.inventory.empty()) { side.host = look_at(arguments.inventory); }
  return side;
}

void print_diagnosis(const DiagnoseArguments& arguments) {
  if (arguments.files.empty() && arguments.inventory.empty() && arguments.database.empty() &&
      !arguments.is_of_host) {
    throw Error("read the command line", ErrorCode::usage,
                "diagnose needs files, --host, --inventory or --db: one of them at least");
  }
  std::optional<results::DiagnosedSide> baseline;
  if (!arguments.baseline.empty()) { baseline = read_side(arguments.baseline); }
  auto side = diagnosed_side(arguments);
  if (!arguments.database.empty()) { results::read_database(arguments.database, side, baseline); }
  const auto diagnosis = results::diagnose(side, baseline);
  if (arguments.format == results::Format::table) {
    fmt::print(std::cout, "{}", results::to_text(diagnosis, screen_of_stdout().columns));
  } else {
    fmt::print(std::cout, "{}", results::render(results::diagnosis_table(diagnosis), arguments.format));
  }
}

}  // namespace

void add_diagnose_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "diagnose", "Say from logs, files and the host why work is slow in a VM, and what to do about it");
  auto arguments = std::make_shared<DiagnoseArguments>();
  verb->add_option("files", arguments->files,
                   "Files of the slow side: logs of any program under NCCL_DEBUG=INFO, output of nccl-tests, "
                   "nvidia-smi "
                   "topo -m, lspci -vvv, virsh dumpxml; folders of such, - for standard input")
      ->type_name("FILE");
  auto* host = verb->add_flag("--host", arguments->is_of_host,
                              "Also what doctor finds of this host, as far as this user may look");
  verb->add_option("--inventory", arguments->inventory,
                   "The same of a recorded host (virtrain doctor --record DIR)")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory)
      ->excludes(host);
  verb->add_option("--db", arguments->database,
                   "Also the latest experiment of this results database: probes, and causes as compare "
                   "--explain knows them")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  verb->add_option("--baseline", arguments->baseline, "Logs of the same job where it is fast: on bare metal")
      ->type_name("FILE");
  add_format_option(*verb, arguments->format);
  verb->footer(
      "Examples:\n"
      "  virtrain diagnose vm.log\n"
      "  virtrain diagnose vm.log --baseline bare-metal.log\n"
      "  virtrain diagnose --host vm.log --baseline bare-metal.log      what log and host tell together\n"
      "  virtrain diagnose --inventory recorded                         a host that somebody recorded\n"
      "  NCCL_DEBUG=INFO ./all_reduce_perf -b 8 -e 8G -f 2 -g 8 | virtrain diagnose -");
  verb->callback([arguments] { print_diagnosis(*arguments); });
}

}  // namespace virtrain::harness
