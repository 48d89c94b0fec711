#include "harness/job/node_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "common/contains.h"
#include "common/text/text.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {
namespace {

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

}  // namespace virtrain::harness
