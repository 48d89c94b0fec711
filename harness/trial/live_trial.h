#pragma once

#include <boost/range/adaptor/filtered.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/job/command_job.h"
#include "harness/job/plan_file.h"
#include "harness/job/stress_job.h"
#include "harness/job/tenant_job.h"
#include "harness/job/trainer_job.h"
#include "harness/plan/node_group.h"
#include "harness/trial/live_nodes.h"

namespace virtrain::harness {

/// A node in one trial, which the node may outlive.
struct TrialNode {
  LiveNode& live;
  results::Node record = {};
  std::vector<results::Telemetry> telemetry = {};  ///< not stored yet
  vmctl::NodeCounters before = {};
  std::optional<vmctl::NodeCounters> after = {};  ///< nothing where the host could not read them at the end
  vmctl::GuestTopology topology = {};             ///< of a guest with devices
  std::optional<bool> licensed_at_start = {}, licensed_at_end = {};
  std::vector<int> numa_nodes = {};  ///< of the planned cores, as ask_hosts() was told
  /// A guest, until libvirt fails to answer for it.
  bool visible_from_host = live.made.has_own_kernel;
};

struct TrialRank {
  results::Rank record = {};
  bool is_new = false;  ///< not stored yet
  std::size_t stored_samples = 0;
};

/// A tenant in one trial: what was planned, its nodes, and the job in them.
struct LiveTenant {
  const TenantPlacement& plan;
  results::Tenant record = {};
  std::vector<TrialNode> nodes = {};         ///< in the job's order
  std::shared_ptr<TenantJob> job = {};       ///< none: it is a neighbour
  std::shared_ptr<CommandJob> command = {};  ///< the same job, where it is a command of the user's own
  std::shared_ptr<StressJob> stress = {};    ///< of a neighbour that does not idle
  std::vector<TrialRank> ranks = {};
  std::vector<results::Figure> figures = {};  ///< of the command, not stored yet

  bool trains() const { return !plan.neighbour; }
  bool runs_job() const { return plan.runs_job(); }
  bool trains_with_cuda() const { return trains() && plan.workload.backend == Backend::cuda; }
};

/// One trial, as its stages share it.
struct LiveTrial {
  RunContext& context;
  const PlannedTrial& planned;
  const Placement& placement;
  std::int64_t row = 0;
  KnownPlans& plans;  ///< what the experiment's trials have timed so far, and what this one adds
  std::vector<LiveTenant> tenants = {};
  std::string stage = "define";
  double throughput = 0;                       ///< the sum over its tenants, which count the same
  std::string invalid = {};                    ///< why the finished trial does not count; empty: it does
  ByHost<vmctl::DeviceEvidence> watched = {};  ///< as ask_hosts() was told
  std::int64_t stressors_ended_ns = 0;
  std::int64_t longest_standstill_ns = 0;  ///< for which this process read nothing that nodes said

  /// The tenants that are measured, without their neighbours.
  auto trainers() { return boost::adaptors::filter(tenants, std::mem_fn(&LiveTenant::trains)); }
  /// One slice stands for all of a tenant's nodes on its host.
  bool is_shared() const { return shares_nodes(planned.base); }
  /// The planned nodes that a live one stands for.
  std::vector<const NodePlacement*> placements_of(const LiveTenant& tenant, const TrialNode& node) const;
  void event(const std::string& message, const EventDetail& detail = {}) {
    context.event(row, stage, message, detail);
  }
};

}  // namespace virtrain::harness
