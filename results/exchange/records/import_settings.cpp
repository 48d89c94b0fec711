#include "results/exchange/records/import_settings.h"

#include <fmt/format.h>

#include "common/text/text.h"

namespace virtrain::results {
namespace {

std::vector<std::string> given_options(const ImportSettings& settings) {
  std::vector<std::string> given;
  const auto add = [&](const char* option, bool is_given) {
    if (is_given) { given.emplace_back(option); }
  };
  add("--experiment", !settings.experiment.empty());
  add("--scenario", !settings.scenario.empty());
  add("--label", !settings.label.empty());
  add("--case", !settings.case_name.empty());
  add("--arm", !settings.arm.empty());
  add("--pair", settings.pair.has_value());
  add("--nodes", settings.nodes.has_value());
  add("--gpus-per-node", settings.gpus_per_node.has_value());
  add("--ranks", settings.ranks.has_value());
  add("--batch-size", settings.batch_size.has_value());
  add("--precision", !settings.precision.empty());
  add("--virtualization", !settings.virtualization.empty());
  add("--started-at", !settings.started_at.empty());
  add("--scope", settings.scope.has_value());
  add("--map", !settings.columns.empty());
  add("--collective", !settings.collective.empty());
  return given;
}

/// As docs/formats.md lists them.
std::string option_words(FileFormat format) {
  const std::string owner = "--experiment --scenario --label --arm ";
  const std::string trial =
      owner + "--case --pair --nodes --gpus-per-node --batch-size --precision --virtualization --started-at ";
  switch (format) {
    case FileFormat::jsonl:
      return "";
    case FileFormat::csv:
      return trial + "--map";
    case FileFormat::superbench:
      return owner + "--case --gpus-per-node --batch-size --virtualization --started-at --scope";
    case FileFormat::nccl_tests:
      return owner + "--nodes --ranks --started-at --collective";
    case FileFormat::nvbandwidth:
      return owner + "--nodes --started-at";
    case FileFormat::tf_cnn_benchmarks:
    case FileFormat::dllogger:
    case FileFormat::torchvision:
    case FileFormat::mlperf:
    case FileFormat::perfkit:
    case FileFormat::horovod:
    case FileFormat::reframe:
      return trial + "--ranks --scope";
  }
  return "";
}

}  // namespace

std::vector<std::string> options_of(FileFormat format) {
  const auto text = option_words(format);
  const auto words = words_of(text);
  return {words.begin(), words.end()};
}

std::vector<std::string> idle_options(const ImportSettings& settings,
                                      const std::vector<FileFormat>& formats) {
  auto idle = given_options(settings);
  for (const auto format : formats) {
    for (const auto& taken : options_of(format)) { std::erase(idle, taken); }
  }
  return idle;
}

const char* format_name(FileFormat format) {
  return format == FileFormat::nccl_tests ? "nccl-tests" : to_string(format);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto format : enum_values<FileFormat>()) { names.emplace_back(format_name(format)); }
  return names;
}

std::optional<FileFormat> parse_file_format(std::string_view name) {
  return name == "nccl-tests"   ? FileFormat::nccl_tests
         : name == "nccl_tests" ? std::nullopt
                                : enum_of<FileFormat>(name);
}

std::string import_words(const ImportReport& report) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t count, const char* one, const char* many) {
    if (count > 0) { parts.push_back(fmt::format("{} {}", count, count == 1 ? one : many)); }
  };
  add(report.experiments, "experiment", "experiments");
  add(report.trials, "trial", "trials");
  if (report.missing > 0) { parts.back() += fmt::format(" ({} missing)", report.missing); }
  add(report.samples, "sample", "samples");
  add(report.telemetry, "telemetry reading", "telemetry readings");
  add(report.figures, "figure of a job", "figures of jobs");
  add(report.events, "event", "events");
  add(report.probes, "probe", "probes");
  if (report.wrong > 0) { parts.back() += fmt::format(" ({} of them with wrong data)", report.wrong); }
  add(report.security, "leak search", "leak searches");
  add(report.left_out, "other metric left out", "other metrics left out");
  return join(parts, ", ");
}

}  // namespace virtrain::results
