#pragma once

#include <string>
#include <vector>

#include "harness/execute/tenant_job.h"

namespace virtrain::harness {

/// What is known of one node when a trial has ended, for the checks below.
struct NodeEvidence {
  std::string hostname;  ///< planned
  std::string boot_id;   ///< as its agent says
  bool is_vm = false;
};

/// What is known of one tenant.
struct TenantEvidence {
  std::string name;
  std::vector<NodeEvidence> nodes;
  std::int64_t ranks_per_node = 1;
  bool shared_host = false;  ///< bare_metal_shared: ranks carry the host's own name
  std::int64_t network_bytes_required = 0;
  std::int64_t network_bytes_measured = 0;
  std::vector<RankState> ranks;
};

/// Why a trial that ran to its end must not be compared; empty if it may. Each check looks at what really
/// happened: rank, size and host names as seen from inside, parameters that changed and are equal on all
/// ranks, a finite loss, the bytes the network must have carried, and guests that are not the host.
std::vector<std::string> invalid_reasons(const std::vector<TenantEvidence>& tenants,
                                         const std::string& host_boot_id);

/// Bytes each node of a tenant must send for `steps` all-reduces of ResNet-50's fp32 gradients over `nodes`
/// nodes: 2 (N-1)/N · 102 MB a step (the bandwidth-optimal all-reduce). 0 for one node.
std::int64_t all_reduce_bytes_per_node(std::int64_t nodes, std::int64_t steps);

}  // namespace virtrain::harness
