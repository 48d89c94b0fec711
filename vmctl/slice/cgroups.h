#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// Control groups that bound one slice: folders to join, and words for what they bound.
struct SliceCgroups {
  std::vector<std::filesystem::path> folders;
  std::string memory;  ///< "cgroup v1", "cgroup v2", or empty: not bounded by a cgroup
};

/// Makes groups named `name` below this process's own (v1) or below /sys/fs/cgroup/virtrain (v2), where we
/// may.
SliceCgroups make_slice_cgroups(const std::string& name, const std::vector<int>& cores,
                                std::uint64_t memory_bytes);
/// Removes a group whose processes are gone; waits a little for the kernel. False if it is still in use.
bool remove_cgroup(const std::filesystem::path& folder);
/// Every slice's group on this host: folders named "vt-...".
std::vector<std::filesystem::path> find_slice_cgroups();

}  // namespace virtrain::vmctl
