#include <fmt/ostream.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <sstream>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/units.h"
#include "harness/cli/arguments.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/report_file.h"
#include "harness/cli/run_scenario.h"
#include "harness/experiment/judge.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "results/exchange/exchange.h"
#include "results/reading/reading.h"
#include "results/statistics/statistics.h"
#include "results/tables/tables.h"
#include "study_files_embedded.h"

namespace virtrain::harness {
namespace {

constexpr const char* study = "dell-r750xa-published";

struct DemoArguments {
  RunOptions options;
  std::string report = "virtrain-demo.html";
};

bool has_gpu(const vmctl::Inventory& inventory) {
  return std::ranges::any_of(
      inventory.devices, [](const auto& device) { return device.device_class == vmctl::DeviceClass::gpu; });
}

/// Shows the published study that ships: a comparison and a report without a measurement.
void show_study(const DemoArguments& arguments, const Cli& cli) {
  const auto& database = arguments.options.database;
  results::CompareRequest request;
  request.selection.experiments = {study};
  {
    results::Store store(database);
    if (!store.experiment(study)) {
      std::istringstream rows{std::string(study_files::dell_r750xa_jsonl)};
      results::import_jsonl(store, rows, "dell-r750xa.jsonl");
    }
    const auto comparisons = results::compare(store, request);
    print_result(
        "1. A published study: ResNet-50 on Dell PowerEdge R750xa, four A100, VMs on\n"
        "   ESXi against bare metal. These are its authors' figures, one run each.\n"
        "   Nothing was measured here.\n\n" +
        results::render(comparisons, results::Format::table, screen_of_stdout(), {.brief = true}));
  }
  results::ReportRequest report{request, cli.command_line};
  report.compare.predict = node_counts(reported_sizes);
  write_report(database, report, arguments.report);
  print_result("report: " + arguments.report + "\n\n");
}

using C = results::CaseComparison;
constexpr results::ColumnOf<C> measured_columns[] = {
    {"case", "case", [](const C& of) { return results::cell(of.case_name); }},
    {"runs", "runs", [](const C& of) { return results::cell(of.arms.at(0).runs); }, true},
    {"images_per_second", "images/s",
     [](const C& of) { return results::throughput_cell(of.arms.at(0).throughput); }, true},
    {"ci", "95 % interval of the mean",
     [](const C& of) {
       constexpr double confidence = 0.95;
       const auto& values = of.arms.at(0).throughputs;
       if (values.size() < 2) { return results::Cell(); }
       const auto interval = results::interval_of_mean(values, confidence);
       return results::cell(fmt::format("{:.1f} … {:.1f}", std::max(0.0, interval.low), interval.high));
     }},
    {"speedup", "speedup",
     [](const C& of) {
       const auto& scaling = of.arms.at(0).scaling;
       return results::cell(scaling ? std::optional(scaling->speedup) : std::nullopt, 3);
     },
     true},
    {"efficiency", "efficiency",
     [](const C& of) {
       const auto& scaling = of.arms.at(0).scaling;
       return results::share_cell(scaling ? std::optional(scaling->efficiency) : std::nullopt);
     },
     true}};

void measure(DemoArguments& arguments, Cli& cli) {
  std::string text(study_files::demo_yaml);
  auto& options = arguments.options;
  const auto host = open_host();
  if (vmctl::best_mode(host->privileges()) == vmctl::HostMode::session) {
    const std::string isolated = "arms: [bare_metal]";
    text.replace(text.find(isolated), isolated.size(), "arms: [bare_metal_shared]");
  }
  print_result(
      "2. A measurement on this host: bare metal on one node and on two (about 20 s\n"
      "   on idle cores).\n");
  options.experiment.command_line = cli.command_line;
  const auto run = run_scenario(decode_scenario(text, "demo.yaml"), options);
  after_run(run.outcome, [&] {
    const auto measured = results::table_of(measured_columns, run.comparisons);
    print_result("\n" + results::render(measured, results::Format::table, screen_of_stdout()) + "\n");
  });
  std::cerr << run.summary << std::endl;
  cli.exit_status = judge(run.outcome, run.comparisons, false);
}

void demo(DemoArguments& arguments, Cli& cli) {
  require_report_place(arguments.report);
  const auto inventory = open_host()->inventory(false);
  const bool emulated = expects_emulation(inventory);
  print_result(fmt::format("This host: {}, {}, {}.\n\n", counted(inventory.cores.size(), "core"),
                           emulated ? "no usable KVM" : "KVM",
                           has_gpu(inventory) ? "GPUs" : "no NVIDIA GPU"));
  show_study(arguments, cli);
  measure(arguments, cli);
  print_result(
      fmt::format("Next:\n  virtrain run quickstart   VMs against bare metal, {}\n"
                  "  virtrain scenarios        what else ships\n",
                  emulated ? "5 to 15 minutes: QEMU\n"
                             "                            emulates VMs here, so this proves the plumbing\n"
                             "                            and not what virtualization costs"
                           : "a few minutes, with a verdict"));
}

}  // namespace

void add_demo_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "demo", "Show a published study, then measure bare metal on this machine: half a minute");
  auto arguments = std::make_shared<DemoArguments>();
  add_database_option(*verb, arguments->options.database);
  arguments->options.database.replace_filename("demo.db");  // the study stays out of the user's own results
  verb->get_option("--db")->capture_default_str();
  verb->add_option("--report", arguments->report, "HTML report on the published study")
      ->type_name("FILE")
      ->capture_default_str();
  add_host_options(*verb, arguments->options);
  verb->footer("Example:\n  virtrain demo --db demo.db");
  verb->callback([arguments, &cli] { demo(*arguments, cli); });
}

}  // namespace virtrain::harness
