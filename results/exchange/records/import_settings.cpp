#include "results/exchange/records/import_settings.h"

#include <fmt/format.h>

#include "common/text/text.h"

namespace virtrain::results {

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
  add(report.events, "event", "events");
  add(report.probes, "probe", "probes");
  if (report.wrong > 0) { parts.back() += fmt::format(" ({} of them with wrong data)", report.wrong); }
  add(report.security, "security probe", "security probes");
  add(report.left_out, "other metric left out", "other metrics left out");
  return join(parts, ", ");
}

}  // namespace virtrain::results
