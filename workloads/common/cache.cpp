#include "workloads/common/cache.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/files/reading.h"
#include "common/system/memory_limit.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain {
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
