#include "harness/job/node_probes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {
namespace {

constexpr JsonLimits probe_limits{.bytes = std::size_t{64} << 10, .depth = 16, .values = 10'000};
constexpr std::size_t most_unit_bytes = 64;

// A probe's records come from a guest: what the database would refuse is refused here, in words.

Error odd(const char* key) {
  return {"read a probe's figure", ErrorCode::trial_failed, fmt::format("its '{}' is odd", key)};
}

/// Absent and null are the same in these records.
const nlohmann::json* given(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  return found == record.end() || found->is_null() ? nullptr : &*found;
}

std::string figure_text(const nlohmann::json& record, const char* key) {
  const auto* value = given(record, key);
  if (value == nullptr) { return {}; }
  if (!value->is_string() || value->get_ref<const std::string&>().size() > most_unit_bytes) {
    throw odd(key);
  }
  return printable(value->get_ref<const std::string&>());
}

std::optional<std::int64_t> count(const nlohmann::json& record, const char* key, std::int64_t least) {
  const auto* value = given(record, key);
  if (value == nullptr) { return std::nullopt; }
  // Unsigned numbers beyond std::int64_t turn negative.
  if (!value->is_number_integer() || value->get<std::int64_t>() < least) { throw odd(key); }
  return value->get<std::int64_t>();
}

std::optional<double> figure_number(const nlohmann::json& record, const char* key) {
  const auto* value = given(record, key);
  if (value == nullptr) { return std::nullopt; }
  if (!value->is_number() || !(value->get<double>() >= 0) || !std::isfinite(value->get<double>())) {
    throw odd(key);
  }
  return value->get<double>();
}

results::Probe figure(const nlohmann::json& record) {
  results::Probe probe;
  probe.name = figure_text(record, "name");
  probe.data_type = figure_text(record, "data_type");
  probe.nodes = count(record, "nodes", 1);
  probe.ranks = count(record, "ranks", 1);
  probe.size_bytes = count(record, "size_bytes", 0);
  probe.seconds = figure_number(record, "seconds");
  const auto value = figure_number(record, "value");
  probe.unit = figure_text(record, "unit");
  probe.wrong = count(record, "wrong", 0);
  probe.transport = figure_text(record, "transport");
  probe.bus_bytes_per_second = figure_number(record, "bus_bytes_per_second");
  probe.measured_at = figure_text(record, "measured_at");
  if (const auto* detail = given(record, "detail")) { probe.detail = *detail; }
  if (probe.name.empty()) { throw odd("name"); }
  if (!value) { throw odd("value"); }
  if (probe.seconds == 0) { throw odd("seconds"); }
  if (probe.unit != "B/s" && probe.unit != "FLOP/s" && probe.unit != "s") { throw odd("unit"); }
  probe.value = *value;
  return probe;
}

using Words = std::vector<std::string>;

bool measures(const Words& probes, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return contains<std::string>(probes, name); });
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
  if (measures(probes, {"triad", "memory_copy"})) {
    command.insert(command.end(), {"--bytes", array_size(memory_bytes / 6, 1024)});
  }
  if (measures(probes, {"gemm"})) { command.insert(command.end(), {"--gemm_size", "1024"}); }
  return command;
}

Words gpu_command(const std::string& program, const Words& probes, std::uint64_t memory_bytes,
                  std::int64_t gpu) {
  auto command = command_of(program, probes);
  command.insert(command.end(), {"--gpu", std::to_string(gpu)});
  if (measures(probes, {"device_copy", "host_to_device", "device_to_host", "peer_copy"})) {
    command.insert(command.end(), {"--bytes", array_size(memory_bytes / 8, 256)});
  }
  return command;
}

}  // namespace

std::vector<Words> probe_commands(const std::string& program, const Words& probes, std::uint64_t memory_bytes,
                                  std::int64_t gpus) {
  Words of_host;
  Words of_gpu;
  for (const auto& probe : probes) {
    if (!is_rank_probe(probe)) { (is_gpu_probe(probe) ? of_gpu : of_host).push_back(probe); }
  }
  std::vector<Words> commands;
  if (!of_host.empty()) { commands.push_back(host_command(program, of_host, memory_bytes)); }
  for (std::int64_t gpu = 0; gpu < gpus && !of_gpu.empty(); ++gpu) {
    commands.push_back(gpu_command(program, of_gpu, memory_bytes, gpu));
  }
  return commands;
}

std::vector<Words> rank_probe_commands(const std::string& program, const Words& probes, bool have_gpus,
                                       const std::string& transport) {
  Words of_mpi, of_nccl;
  for (const auto& probe : probes) {
    if (contains(mpi_probes, probe)) { of_mpi.push_back(probe); }
    if (have_gpus && contains(nccl_probes, probe)) { of_nccl.push_back(probe); }
  }
  std::vector<Words> commands;
  const auto add = [&](const Words& chosen, const char* most) {
    if (chosen.empty()) { return; }
    commands.push_back({program, "--format", "jsonl", "--probe", join(chosen, ","), "--min_bytes", "1KiB",
                        "--max_bytes", most, "--factor", "4", "--iterations", "10", "--warmup_iterations",
                        "2", "--transport", transport});
  };
  add(of_mpi, "16MiB");
  add(of_nccl, "256MiB");
  return commands;
}

std::vector<results::Probe> parse_probe_records(const std::string& lines, const std::string& arm,
                                                const std::string& node) {
  const std::string operation = "read what virtrain-probe has measured in " + node;
  std::vector<results::Probe> figures;
  for (const auto& line : split(lines, '\n')) {
    if (trim(line).empty()) { continue; }
    const auto record = parse_json(line, operation, ErrorCode::trial_failed, probe_limits);
    const auto* kind = record.is_object() ? given(record, "record") : nullptr;
    if (kind == nullptr) { throw Error(operation, ErrorCode::trial_failed, "a line is not a record"); }
    if (*kind != "probe") { continue; }
    try {
      figures.push_back(figure(record));
    } catch (const Error& error) {
      throw Error(operation, ErrorCode::trial_failed, fmt::format("{}: {}", error.message(), excerpt(line)));
    }
    figures.back().arm = arm;
    figures.back().node = node;
  }
  return figures;
}

}  // namespace virtrain::harness
