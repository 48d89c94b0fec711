#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/placeholders.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/node.h"

namespace virtrain::harness {

/// Where one node of a trial sits: the same for the VM and for its bare-metal counterpart.
struct NodePlacement : vmctl::NodeSpec {
  std::string devices_reason;  ///< why these: "joined by NVLink, on NUMA node 0"

  /// Addresses of its devices, as `plan` lists them and leases name them.
  std::vector<std::string> device_addresses() const;
};

struct TenantPlacement {
  std::string name;
  Workload workload;
  std::int64_t gpus_per_node = 0;
  std::int64_t ranks_per_node = 1;
  std::int64_t threads_per_rank = 1;
  std::vector<NodePlacement> nodes;
  std::optional<Neighbour> neighbour = {};  ///< it has no ranks

  /// Whether it is measured by a command of the user's own, and not by the built-in trainer.
  bool runs_job() const { return !neighbour && workload.job.has_value(); }
  /// The unit of its throughput.
  std::string unit() const { return unit_of(workload); }
  std::int64_t ranks() const { return ranks_per_node * static_cast<std::int64_t>(nodes.size()); }
  /// Whether any node was lent an RDMA adapter, past which the tenant's network is not looked at.
  bool has_rdma_adapter() const;
};

/// The command of a tenant that runs one, with the values of its placeholders.
std::vector<std::string> job_words(const TenantPlacement& tenant);
/// The path of the payload that its job runs in; empty: none.
std::string payload_of(const TenantPlacement& tenant);

/// All nodes of one case, placed on one host, or on the machines that an arm attaches: for each arm in which
/// the case is the same.
struct Placement {
  std::string case_name;
  CaseKey key;
  std::vector<TenantPlacement> tenants;
  bool oversubscribed = false;
  Guest guest = {};
  Devices devices = {};
  bool is_attached = false;  ///< its nodes are machines that exist already, and nothing of a host is theirs
  bool ranks_sleep = false;  ///< while they wait: here, or in another arm of the case, cores are shared

  std::int64_t nodes() const;
  /// Without those of neighbours.
  std::int64_t training_nodes() const;
};

}  // namespace virtrain::harness
