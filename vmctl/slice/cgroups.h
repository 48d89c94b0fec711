#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "vmctl/api/node.h"

namespace virtrain::vmctl {

/// Control groups that bound one slice: folders to join, and words for what they bound.
struct SliceCgroups {
  std::vector<std::filesystem::path> folders;
  std::string memory;  ///< "cgroup v1", "cgroup v2", or empty: not bounded by a cgroup
  bool cpu = false;    ///< its limit holds
  bool disk = false;   ///< its limits hold
};

/// Makes groups named `name` below this process's own (v1) or below /sys/fs/cgroup/virtrain (v2), where we
/// may. Limits of the disk hold for each disk of the host.
SliceCgroups make_slice_cgroups(const std::string& name, const std::vector<int>& cores,
                                std::uint64_t memory_bytes, const NodeLimits& limits = {});
/// Why no group can bound that here, tried now with a group that is removed again; empty: one can.
std::string lacks_cgroups(const NodeLimits& limits);
/// Who made a group of this name to try limits in lacks_cgroups(); nothing of other names.
std::optional<pid_t> maker_of_tried_cgroup(const std::string& name);
/// Removes a group whose processes are gone; waits a little for the kernel. False if it is still in use.
bool remove_cgroup(const std::filesystem::path& folder);
/// As the kernel lists them, those of groups below it too.
std::set<pid_t> processes_in_cgroup(const std::filesystem::path& group);
/// Every slice's group on this host: folders named "vt-...".
std::vector<std::filesystem::path> find_slice_cgroups();

}  // namespace virtrain::vmctl
