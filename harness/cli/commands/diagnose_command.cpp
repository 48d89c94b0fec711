#include <fmt/ostream.h>

#include <iostream>
#include <memory>
#include <optional>

#include "common/error.h"
#include "common/system/log.h"
#include "harness/cli/commands.h"
#include "results/diagnosis/diagnosis_table.h"
#include "results/diagnosis/read_diagnosis.h"

namespace virtrain::harness {
namespace {

struct DiagnoseArguments {
  std::vector<std::string> files, baseline;
  results::Format format = results::Format::table;
};

results::DiagnosedSide read_side(const std::vector<std::string>& files) {
  std::vector<std::string> skipped;
  auto side = results::read_side(files, std::cin, skipped);
  for (const auto& file : skipped) {
    log::warning("neither NCCL's lines nor figures of a known tool are in it; it is passed over",
                 {{"file", file}});
  }
  return side;
}

void print_diagnosis(const DiagnoseArguments& arguments) {
  std::optional<results::DiagnosedSide> baseline;
  if (!arguments.baseline.empty()) { baseline = read_side(arguments.baseline); }
  const auto diagnosis = results::diagnose(read_side(arguments.files), baseline);
  if (arguments.format == results::Format::table) {
    fmt::print(std::cout, "{}", results::to_text(diagnosis, screen_of_stdout().columns));
  } else {
    fmt::print(std::cout, "{}", results::render(results::diagnosis_table(diagnosis), arguments.format));
  }
}

}  // namespace

void add_diagnose_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "diagnose", "Say from logs why collectives are slow in a VM, and what to do about it");
  auto arguments = std::make_shared<DiagnoseArguments>();
  verb->add_option(
          "files", arguments->files,
          "Logs of the slow side: of any program under NCCL_DEBUG=INFO, output of nccl-tests, or both in "
          "one; folders of such, - for standard input")
      ->type_name("FILE")
      ->required();
  verb->add_option("--baseline", arguments->baseline, "Logs of the same job where it is fast: on bare metal")
      ->type_name("FILE");
  add_format_option(*verb, arguments->format);
  verb->footer(
      "Examples:\n"
      "  virtrain diagnose vm.log\n"
      "  virtrain diagnose vm.log --baseline bare-metal.log\n"
      "  NCCL_DEBUG=INFO ./all_reduce_perf -b 8 -e 8G -f 2 -g 8 | virtrain diagnose -");
  verb->callback([arguments] { print_diagnosis(*arguments); });
}

}  // namespace virtrain::harness
