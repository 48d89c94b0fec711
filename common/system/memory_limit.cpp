#include "common/system/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/files/reading.h"
#include "common/system/cgroups.h"
#include "common/text/units.h"

namespace virtrain {
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
