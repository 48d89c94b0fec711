#include "harness/execute/node_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "common/text.h"

namespace virtrain::harness {
namespace {

/// Absent and null are the same in these records.
template <typename T>
void take(const nlohmann::json& record, const char* key, T& into) {
  if (record.contains(key) && !record[key].is_null()) into = record[key].get<T>();
}

template <typename T>
void take(const nlohmann::json& record, const char* key, std::optional<T>& into) {
  if (record.contains(key) && !record[key].is_null()) into = record[key].get<T>();
}

results::Probe figure(const nlohmann::json& record) {
  results::Probe probe;
  take(record, "name", probe.name);
  take(record, "data_type", probe.data_type);
  take(record, "nodes", probe.nodes);
  take(record, "ranks", probe.ranks);
  take(record, "size_bytes", probe.size_bytes);
  take(record, "seconds", probe.seconds);
  take(record, "value", probe.value);
  take(record, "unit", probe.unit);
  take(record, "wrong", probe.wrong);
  take(record, "measured_at", probe.measured_at);
  take(record, "detail", probe.detail);
  return probe;
}

}  // namespace

std::vector<std::string> probe_command(const std::string& program, const std::vector<std::string>& probes,
                                       std::uint64_t memory_bytes) {
  constexpr std::uint64_t kMib = 1U << 20;
  const auto array_mib = std::clamp<std::uint64_t>(memory_bytes / 6 / kMib, 1, 1024);
  std::vector<std::string> command{program,           "--format",      "jsonl", "--probe",
                                   join(probes, ","), "--repetitions", "5"};
  const auto measures = [&](const char* name) {
    return std::find(probes.begin(), probes.end(), name) != probes.end();
  };
  // A flag that none of its probes reads is refused.
  if (measures("triad") || measures("memory_copy"))
    command.insert(command.end(), {"--bytes", fmt::format("{}MiB", array_mib)});
  if (measures("gemm")) command.insert(command.end(), {"--gemm_size", "1024"});
  return command;
}

std::vector<results::Probe> parse_probe_records(const std::string& lines, const std::string& arm,
                                                const std::string& node) {
  std::vector<results::Probe> figures;
  try {
    for (const auto& line : split(lines, '\n')) {
      if (trim(line).empty()) continue;
      const auto record = nlohmann::json::parse(line);
      if (record.at("record") != "probe") continue;
      figures.push_back(figure(record));
      figures.back().arm = arm;
      figures.back().node = node;
    }
  } catch (const nlohmann::json::exception& failure) {
    throw Error("read what virtrain-probe has measured in " + node, ErrorCode::trial_failed, failure.what());
  }
  return figures;
}

}  // namespace virtrain::harness
