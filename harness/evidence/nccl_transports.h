#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "harness/plan/placement.h"

namespace virtrain::harness {

/// The ways by which NCCL's ranks reach each other, as NCCL itself says under NCCL_DEBUG=INFO, a line for
/// each channel of a connection (nccl, src/transport/p2p.cc, shm.cc, net.cc): "t1n1:31:40 [0] NCCL INFO
/// Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read". A connection to an adapter is named without the adapter's
/// number, "NET/IB/GDRDMA".
class NcclTransports {
 public:
  /// Reads a line of a job of that many ranks; any other line, or one that names another rank, changes
  /// nothing.
  void take(std::string_view line, std::int64_t ranks);
  /// By pair of ranks, the lower first: "0-1" is "P2P/CUMEM/read"; different ways of one pair joined by ", ".
  std::map<std::string, std::string> by_pair() const;
  /// All ways that end in one of the ranks from `first` up to `end`, joined by ", "; empty without any.
  std::string of_ranks(std::int64_t first, std::int64_t end) const;

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::set<std::string>> seen_;
};

/// The pairs of a tenant's ranks that have NVLinks between all GPUs of their node, one GPU a rank, so that
/// NCCL has no reason to go another way than "P2P". Others are up to NCCL, or to the workload's own
/// NCCL_P2P_LEVEL, NCCL_P2P_DISABLE. Pure.
std::map<std::string, std::string> planned_transports(const TenantPlacement& tenant);

}  // namespace virtrain::harness
