#include "workloads/common/processor.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/cgroups.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain {

std::vector<int> allowed_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) { throw errno_error("read the affinity mask", errno); }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) { cpus.push_back(cpu); }
  }
  return cpus;
}

std::string allowed_cpus_text() {
  return line_value(read_file("/proc/self/status").value_or(""), "Cpus_allowed_list");
}

std::string cpu_model() {
  return line_value(read_file("/proc/cpuinfo").value_or(""), "model name");
}

ThreadPlacement place_threads(const std::vector<int>& cpus, int sharers, int index, int requested) {
  const int count = static_cast<int>(cpus.size());
  const int share = std::max(1, count / sharers);
  ThreadPlacement placement;
  placement.threads = requested > 0 ? requested : share;
  const int first = index * share;
  // With fewer threads than cores the scheduler may choose: another job on these cores would pin to the same
  // ones.
  if (placement.threads == share && first + share <= count) {
    placement.cpus.assign(cpus.begin() + first, cpus.begin() + first + placement.threads);
  }
  return placement;
}

void apply(const ThreadPlacement& placement) {
  omp_set_dynamic(0);
  omp_set_num_threads(placement.threads);
  if (placement.cpus.empty()) { return; }
#pragma omp parallel
  {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(placement.cpus[static_cast<std::size_t>(omp_get_thread_num())], &mask);
    sched_setaffinity(0, sizeof mask, &mask);  // a mask that changed meanwhile costs speed, not correctness
  }
}

namespace {

constexpr std::uint64_t default_cache_bytes = 32ULL << 20;

/// "32768K" as bytes; 0 for other text.
std::uint64_t cache_size(std::string text) {
  if (text.ends_with('K') || text.ends_with('M')) { text += "iB"; }
  return parse_size_bytes(text).value_or(0);
}

}  // namespace

std::uint64_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& root) {
  std::map<std::string, std::uint64_t> caches;  // by the CPUs that share one
  for (const int cpu : cpus) {
    const auto folder = root / ("sys/devices/system/cpu/cpu" + std::to_string(cpu)) / "cache";
    std::int64_t highest = 0;
    std::filesystem::path last;
    for (int index = 0; const auto level = read_value(folder / ("index" + std::to_string(index)) / "level");
         ++index) {
      if (parse_integer(*level).value_or(0) <= highest) { continue; }
      highest = *parse_integer(*level);
      last = folder / ("index" + std::to_string(index));
    }
    if (last.empty()) { continue; }
    const std::uint64_t bytes = cache_size(read_value(last / "size").value_or(""));
    caches[read_value(last / "shared_cpu_list").value_or(std::to_string(cpu))] = bytes;
  }
  std::uint64_t total = 0;
  for (const auto& [shared_by, bytes] : caches) { total += bytes; }
  return total > 0 ? total : default_cache_bytes;
}

std::uint64_t available_memory_bytes() {
  std::uint64_t available = UINT64_MAX;
  for (const std::string& line : split(read_file("/proc/meminfo").value_or(""), '\n')) {
    constexpr std::string_view key = "MemAvailable:";
    if (!line.starts_with(key)) { continue; }
    const std::string kib = split(trim(std::string_view(line).substr(key.size())), ' ').front();
    available = static_cast<std::uint64_t>(parse_integer(kib).value_or(0)) << 10;
  }
  return std::min(available, own_memory_limit().value_or(UINT64_MAX));
}

}  // namespace virtrain
