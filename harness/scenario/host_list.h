#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/host_network.h"

namespace virtrain::harness {

/// Values by the name of their host; that of this machine, alone, is empty.
template <typename Value>
using ByHost = std::map<std::string, Value>;

/// The part of a node that a job of Slurm's has.
struct AllocatedNode {
  std::string job;
  std::vector<int> cpus = {};  ///< by Slurm's own numbers, which need not be the kernel's
  /// N of /dev/nvidiaN; absent: Slurm does not say which ones.
  std::optional<std::vector<int>> gpus = std::vector<int>();
  std::int64_t memory_mib = 0;  ///< 0: not limited
  bool is_exclusive = false;    ///< nobody else has jobs there

  bool operator==(const AllocatedNode&) const = default;
};

/// One of several hosts that a run has nodes on.
struct ListedHost {
  std::string name;  ///< as the launcher takes it
  vmctl::HostNetwork network = {};
  std::optional<AllocatedNode> allocated = {};  ///< absent: no job limits it to a part of the host

  bool operator==(const ListedHost&) const = default;
};

/// The hosts of a run, and what starts virtrain-host on them.
struct HostList {
  std::vector<std::string> launcher = {};  ///< words, in which "{host}" stands for the host's name
  std::vector<ListedHost> hosts = {};      ///< in the order of their names; empty: this machine alone

  bool operator==(const HostList&) const = default;
};

}  // namespace virtrain::harness
