#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/evidence/aggressor.h"
#include "harness/evidence/rank_output.h"
#include "harness/plan/placement.h"
#include "vmctl/api/evidence.h"

namespace virtrain::harness {

/// Evidence about one node when a trial has ended, for the checks below.
struct NodeEvidence {
  std::string hostname;         ///< planned
  std::string boot_id;          ///< as its agent says
  bool has_own_kernel = false;  ///< see vmctl::NodeFacts
  std::int64_t ranks = 1;       ///< planned there
  std::string host_name = {};   ///< that its ranks see in place of `hostname`; empty: they see that
  /// Address of the virtual function that is to be its eth0; empty: none is.
  std::string planned_mac = {};
  std::string nic_mac = {}, nic_driver = {};  ///< of its eth0, as its agent says, where it is a NIC's
  // With devices only; empty or absent elsewhere.
  std::size_t devices = 0;
  std::vector<std::string> missing_devices = {};  ///< of them, what its guest does not show
  std::vector<int> core_numa_nodes = {};          ///< of the host cores that its vCPUs or ranks are pinned to
  std::optional<int> memory_numa_node = {};       ///< that its memory is bound to
  std::vector<int> gpu_numa_nodes = {};           ///< of its GPUs, on the host
  std::vector<int> guest_gpu_numa_nodes = {};     ///< of the same, as the node sees them; -1: none
  std::vector<std::string> peer_differences = {};  ///< pairs of GPUs that reach each other other than planned
  /// Whether its vGPUs were licensed, as nvidia-smi reported there before and after; absent where it gave no
  /// answer.
  std::optional<bool> licensed_at_start = {}, licensed_at_end = {};
  std::optional<std::int64_t> wall_clock_offset_ns = {};  ///< its clock less the host's
};

/// Evidence from the placement: the node's name, its devices, and where those, its cores (`core_numa_nodes`,
/// as the host has them now) and its memory lie.
NodeEvidence placed_evidence(const NodePlacement& placed, std::vector<int> core_numa_nodes);

/// Evidence about one tenant.
struct TenantEvidence {
  std::string name;
  std::vector<NodeEvidence> nodes;
  std::int64_t network_bytes_required = 0;
  std::optional<std::int64_t> network_bytes_measured = 0;  ///< nothing: could not be read
  std::vector<RankState> ranks;
  std::int64_t images_per_rank = 0;  ///< that were planned
  std::int64_t released_ns = 0;      ///< when the barrier let them go
  /// By pair of ranks: NCCL's word for its way as planned ("0-1" to "P2P"), and its ways as it said itself
  /// ("P2P/IPC", "SHM/direct/direct"). Pairs that are not planned are not judged.
  std::map<std::string, std::string> transports_planned = {}, transports_seen = {};
  std::vector<std::string> job_doubts = {};  ///< why the figures of its own command are not to be believed
};

struct TrialEvidence {
  std::vector<TenantEvidence> tenants;
  ByHost<vmctl::DeviceEvidence> hosts = {};
  std::vector<AggressorEvidence> aggressors = {};  ///< of the tenants' neighbour, where it does not idle
  std::set<std::string> host_boot_ids = {};
  double standstill_seconds = 0;  ///< the longest for which nobody read what ranks said
};

/// Energy between two times, by lines between the readings; nothing where they do not cover both.
std::optional<double> joules_between(const std::vector<vmctl::EnergyReading>& readings, std::int64_t begin_ns,
                                     std::int64_t end_ns);

}  // namespace virtrain::harness
