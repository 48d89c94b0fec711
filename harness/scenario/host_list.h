#pragma once

#include <map>
#include <string>
#include <vector>

#include "vmctl/api/host_network.h"

namespace virtrain::harness {

/// Values by the name of their host; that of this machine, alone, is empty.
template <typename Value>
using ByHost = std::map<std::string, Value>;

/// One of several hosts that a run has nodes on.
struct ListedHost {
  std::string name;  ///< as the launcher takes it
  vmctl::HostNetwork network = {};

  bool operator==(const ListedHost&) const = default;
};

/// The hosts of a run, and what starts virtrain-host on them.
struct HostList {
  std::vector<std::string> launcher = {};  ///< words, in which "{host}" stands for the host's name
  std::vector<ListedHost> hosts = {};      ///< in the order of their names; empty: this machine alone

  bool operator==(const HostList&) const = default;
};

}  // namespace virtrain::harness
