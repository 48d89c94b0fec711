#pragma once

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

}  // namespace virtrain
