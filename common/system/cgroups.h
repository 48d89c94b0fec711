#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace virtrain {

/// A folder that may have the files of a controller.
struct CgroupFolder {
  std::filesystem::path path;
  bool is_v2 = false;
};

/// This process's cgroup of a controller and its parents up to the mount, nearest first. `root` is "/" except
/// for recorded hosts.
std::vector<CgroupFolder> own_cgroups(const std::string& controller, const std::filesystem::path& root = "/");

/// CPU time that this process's cgroup and its parents grant, in cores: the least quota of them; nothing if
/// none is set.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root = "/");

/// The tightest memory limit of this process's cgroup and its parents (v1 or v2); nothing if none is set.
/// `root` is "/" except in tests.
std::optional<std::uint64_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

/// The soft limit of RLIMIT_DATA, which bounds a process where no cgroup can; nothing if unlimited.
std::optional<std::uint64_t> data_segment_limit();
/// The tighter of the two; nothing if neither bounds this process.
std::optional<std::uint64_t> own_memory_limit();

}  // namespace virtrain
