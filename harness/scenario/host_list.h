#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/model/described.h"
#include "common/text/text.h"
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

inline constexpr std::size_t most_attached = 64;

/// A machine that somebody else made, and that is reached by a launcher: one node of an arm.
struct AttachedMachine {
  bool operator==(const AttachedMachine&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, address, {},
                 .text = "Address of this machine at which ranks on the arm's other machines reach it",
                 .key = "address", .most = 15, .fits = is_ipv4_address,
                 .refusal = "is not an IP address such as 192.0.2.7",
                 .absent = "the one on a network that all machines of the arm share", .example = "192.0.2.7");
  std::string name = {};                   ///< "cloud:1": of the arm, and counted in it
  std::vector<std::string> launcher = {};  ///< words, after which the machine runs one more: a program's name
};

}  // namespace virtrain::harness
