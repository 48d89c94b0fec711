#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "vmctl/api/node.h"

// Cache allocation (CAT) and memory bandwidth allocation (MBA): a group of the kernel's resctrl file system
// bounds what its tasks, and all that they start, take of the last-level cache and of the memory's bandwidth.
namespace virtrain::vmctl {

inline constexpr const char* resctrl_mount = "/sys/fs/resctrl";

/// Limits that a host's resctrl can set.
struct ResctrlFacts {
  std::uint64_t ways = 0;          ///< mask of the L3 cache's; 0: it cannot be divided
  int least_ways = 1;              ///< of one group
  std::vector<int> caches = {};    ///< numbers of the L3 caches
  int least_bandwidth = 0;         ///< per cent; 0: bandwidth cannot be bounded
  int bandwidth_step = 1;          ///< likewise
  std::vector<int> memories = {};  ///< numbers of what has a bandwidth of its own
};
/// All zero where there is no resctrl below `mount`.
ResctrlFacts read_resctrl(const std::filesystem::path& mount = resctrl_mount);

/// The lines of `schemata` for limits that these facts allow: the lowest ways, at least as many as asked for,
/// and the smallest bandwidth that is not less. "L3:0=f;1=f\nMB:0=30;1=30\n". Pure.
std::string resctrl_schemata(const ResctrlFacts& facts, const NodeLimits& limits);
/// Why they cannot be had; empty: they can. Pure.
std::string lacks_resctrl(const ResctrlFacts& facts, const NodeLimits& limits);

/// Makes a group with these limits. Throws Error: busy where the processor has no class of service left.
void make_resctrl_group(const std::string& name, const NodeLimits& limits,
                        const std::filesystem::path& mount = resctrl_mount);
/// Moves all threads of a process into it; what they start later is born there.
void join_resctrl_group(const std::string& name, pid_t process,
                        const std::filesystem::path& mount = resctrl_mount);
/// Its tasks go back to the default group. No error if it is gone.
void remove_resctrl_group(const std::filesystem::path& group);
/// Groups that nodes were given: folders named "vt-…".
std::vector<std::filesystem::path> find_resctrl_groups(const std::filesystem::path& mount = resctrl_mount);

}  // namespace virtrain::vmctl
