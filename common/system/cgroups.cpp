#include "common/system/cgroups.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/contains.h"
#include "common/files/reading.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain {
namespace {

namespace fs = std::filesystem;

/// "200000 100000" are two cores; nothing of "max 100000", and of version 1's "-1".
std::optional<double> cores_of_quota(const std::string& quota, const std::string& period) {
  const auto granted = parse_integer(quota), of = parse_integer(period);
  if (!granted || !of || *granted <= 0 || *of <= 0) { return std::nullopt; }
  return static_cast<double>(*granted) / static_cast<double>(*of);
}

std::optional<double> quota_of(const CgroupFolder& group) {
  if (!group.is_v2) {
    return cores_of_quota(read_value(group.path / "cpu.cfs_quota_us").value_or(""),
                          read_value(group.path / "cpu.cfs_period_us").value_or(""));
  }
  const auto words = split(read_value(group.path / "cpu.max").value_or(""), ' ');
  return words.size() == 2 ? cores_of_quota(words[0], words[1]) : std::nullopt;
}

}  // namespace

std::vector<CgroupFolder> own_cgroups(const std::string& controller, const fs::path& root) {
  constexpr std::size_t most_bytes = 16U << 10;  // of a recorded host, of which nothing is sure
  std::vector<CgroupFolder> groups;
  for (const auto& line : split(read_file(root / "proc/self/cgroup", most_bytes).value_or(""), '\n')) {
    auto fields = split(line, ':');
    if (fields.size() < 3) { continue; }
    fields[2] = join({fields.begin() + 2, fields.end()}, ":");  // a path may have colons: containerd's do
    const bool is_v2 = fields[1].empty();
    if (!is_v2 && !contains(split(fields[1], ','), controller)) { continue; }
    const auto mount = root / "sys/fs/cgroup" / (is_v2 ? "" : controller);
    for (auto below = fs::path(fields[2]).relative_path();; below = below.parent_path()) {
      groups.push_back({mount / below, is_v2});
      if (below.empty()) { break; }
    }
  }
  return groups;
}

std::optional<double> cgroup_cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for (const auto& group : own_cgroups("cpu", root)) {
    const auto quota = quota_of(group);
    if (quota && (!least || *quota < *least)) { least = quota; }
  }
  return least;
}

namespace {

namespace fs = std::filesystem;

/// Version 1 writes "no limit" as the largest multiple of a page, version 2 as "max".
constexpr std::uint64_t unlimited_bytes = 1ULL << 62;

std::optional<std::uint64_t> limit_in(const fs::path& file) {
  const auto number = parse_integer(read_value(file).value_or(""));
  if (!number || *number <= 0 || static_cast<std::uint64_t>(*number) >= unlimited_bytes) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*number);
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory_limit(const fs::path& root) {
  std::optional<std::uint64_t> least;
  for (const auto& group : own_cgroups("memory", root)) {
    const auto limit = limit_in(group.path / (group.is_v2 ? "memory.max" : "memory.limit_in_bytes"));
    if (limit && (!least || *limit < *least)) { least = limit; }
  }
  return least;
}

std::optional<std::uint64_t> data_segment_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) { return std::nullopt; }
  return limit.rlim_cur;
}

std::optional<std::uint64_t> own_memory_limit() {
  const auto cgroup = cgroup_memory_limit(), data = data_segment_limit();
  return cgroup && data ? std::min(*cgroup, *data) : cgroup ? cgroup : data;
}

}  // namespace virtrain
