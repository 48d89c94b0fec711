#include <fmt/ostream.h>

#include <iostream>
#include <memory>
#include <optional>

#include "common/error.h"
#include "common/system/log.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "results/diagnosis/diagnosis_table.h"
#include "results/diagnosis/read_diagnosis.h"

namespace virtrain::harness {
namespace {

struct DiagnoseArguments {
  std::vector<std::string> files, baseline;
  bool is_of_host = false;
  std::string inventory;  ///< empty: none
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

results::DiagnosedHost diagnosed_host(const std::string& root) {
  const auto host = open_host(root);
  const auto inventory = host->inventory(false);
  results::DiagnosedHost found;
  found.name = inventory.hostname;
  found.checks = host->examine_devices(std::nullopt);
  for (const auto* devices : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *devices) {
      auto& function = found.functions[device.function.address];
      function.numa_node = device.function.numa_node;
      for (const auto& bar : device.function.bars) { function.bar_bytes += bar.is_64bit ? bar.bytes : 0; }
      found.gpus += device.device_class == vmctl::DeviceClass::gpu ? 1 : 0;
    }
  }
  for (const auto& core : inventory.cores) { found.node_of_cpu[core.id] = core.numa_node; }
  return found;
}

results::DiagnosedSide diagnosed_side(const DiagnoseArguments& arguments) {
  results::DiagnosedSide side;
  if (!arguments.files.empty()) { side = read_side(arguments.files); }
  if (arguments.is_of_host) { side.host = diagnosed_host("/"); }
  if (!arguments.inventory.empty()) { side.host = diagnosed_host(arguments.inventory); }
  return side;
}

void print_diagnosis(const DiagnoseArguments& arguments) {
  if (arguments.files.empty() && arguments.inventory.empty() && !arguments.is_of_host) {
    throw Error("read the command line", ErrorCode::usage,
                "diagnose needs files, --host or --inventory: one of them at least");
  }
  std::optional<results::DiagnosedSide> baseline;
  if (!arguments.baseline.empty()) { baseline = read_side(arguments.baseline); }
  const auto diagnosis = results::diagnose(diagnosed_side(arguments), baseline);
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
  verb->add_option(
          "files", arguments->files,
          "Logs of the slow side: of any program under NCCL_DEBUG=INFO, output of nccl-tests, or both in "
          "one; folders of such, - for standard input")
      ->type_name("FILE");
  auto* host = verb->add_flag("--host", arguments->is_of_host,
                              "Also what doctor finds of this host, as far as this user may look");
  verb->add_option("--inventory", arguments->inventory,
                   "The same of a recorded host (virtrain doctor --record DIR)")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory)
      ->excludes(host);
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
