#include "harness/execute/node_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "common/text.h"
#include "harness/scenario/scenario.h"

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

using Words = std::vector<std::string>;

bool measures(const Words& probes, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    return std::find(probes.begin(), probes.end(), name) != probes.end();
  });
}

/// So much of the node's memory, at most `most_mib`.
std::string array_size(std::uint64_t share_bytes, std::uint64_t most_mib) {
  return fmt::format("{}MiB", std::clamp<std::uint64_t>(share_bytes >> 20U, 1, most_mib));
}

Words command_of(const std::string& program, const Words& probes) {
  return {program, "--format", "jsonl", "--probe", join(probes, ","), "--repetitions", "5"};
}

// A flag that none of its probes reads is refused.

Words host_command(const std::string& program, const Words& probes, std::uint64_t memory_bytes) {
  auto command = command_of(program, probes);
  if (measures(probes, {"triad", "memory_copy"}))
    command.insert(command.end(), {"--bytes", array_size(memory_bytes / 6, 1024)});
  if (measures(probes, {"gemm"})) command.insert(command.end(), {"--gemm_size", "1024"});
  return command;
}

Words gpu_command(const std::string& program, const Words& probes, std::uint64_t memory_bytes,
                  std::int64_t gpu) {
  auto command = command_of(program, probes);
  command.insert(command.end(), {"--gpu", std::to_string(gpu)});
  if (measures(probes, {"device_copy", "host_to_device", "device_to_host", "peer_copy"}))
    command.insert(command.end(), {"--bytes", array_size(memory_bytes / 8, 256)});
  return command;
}

}  // namespace

std::vector<Words> probe_commands(const std::string& program, const Words& probes, std::uint64_t memory_bytes,
                                  std::int64_t gpus) {
  Words of_host;
  Words of_gpu;
  for (const auto& probe : probes) (is_gpu_probe(probe) ? of_gpu : of_host).push_back(probe);
  std::vector<Words> commands;
  if (!of_host.empty()) commands.push_back(host_command(program, of_host, memory_bytes));
  for (std::int64_t gpu = 0; gpu < gpus && !of_gpu.empty(); ++gpu)
    commands.push_back(gpu_command(program, of_gpu, memory_bytes, gpu));
  return commands;
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
