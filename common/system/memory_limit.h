#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace virtrain {

/// The tightest memory limit of this process's cgroup and its parents (v1 or v2); nothing if none is set.
/// `root` is "/" except in tests.
std::optional<std::uint64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

/// The soft limit of RLIMIT_DATA, which bounds a process where no cgroup can; nothing if unlimited.
std::optional<std::uint64_t> data_segment_limit();
/// The tighter of the two; nothing if neither bounds this process.
std::optional<std::uint64_t> own_memory_limit();

}  // namespace virtrain
