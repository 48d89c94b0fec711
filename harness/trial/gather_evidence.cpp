#include "harness/trial/gather_evidence.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "harness/rules/validity.h"

namespace virtrain::harness {
namespace {

NodeEvidence node_evidence(const LiveTrial& trial, const LiveTenant& tenant, const TrialNode& node) {
  const auto& live = node.live;
  const auto& placed = *live.placement;
  auto seen = placed_evidence(placed, node.numa_nodes);
  seen.ranks = std::ssize(trial.placements_of(tenant, node)) * tenant.plan.ranks_per_node;
  if (trial.is_shared() || live.machine) { seen.host_name = live.report.hostname.value_or(""); }
  seen.boot_id = live.report.boot_id.value_or("");
  seen.has_own_kernel = live.made.has_own_kernel;
  seen.missing_devices = node.topology.missing;
  if (live.made.network_medium == vmctl::network_by_functions) { seen.planned_mac = placed.mac; }
  seen.nic_mac = live.report.nic_mac.value_or("");
  seen.nic_driver = live.report.nic_driver.value_or("");
  seen.guest_gpu_numa_nodes = node.topology.gpu_numa_nodes;
  seen.peer_differences = node.topology.peer_differences;
  seen.licensed_at_start = node.licensed_at_start;
  seen.licensed_at_end = node.licensed_at_end;
  if (!placed.devices.empty()) { seen.wall_clock_offset_ns = live.agent->clock().wall_offset_ns; }
  return seen;
}

TenantEvidence tenant_evidence(LiveTrial& trial, const LiveTenant& tenant) {
  const auto& placed = tenant.plan;
  TenantEvidence seen{placed.name,
                      {},
                      *tenant.record.network_bytes_required,
                      tenant.record.network_bytes_measured,
                      tenant.job->ranks(),
                      placed.workload.images_per_rank(),
                      tenant.job->released_ns()};
  for (const auto& node : tenant.nodes) { seen.nodes.push_back(node_evidence(trial, tenant, node)); }
  // One slice of all has the tenant's GPUs in an order of its own.
  if (!trial.is_shared()) { seen.transports_planned = planned_transports(placed); }
  seen.transports_seen = tenant.job->nccl_transports().by_pair();
  if (tenant.command) { seen.job_doubts = tenant.command->result().doubts; }
  return seen;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> counted_interval(LiveTrial& trial) {
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = 0;
  for (const auto& tenant : trial.trainers()) {
    const auto [begin_of_job_ns, end_of_job_ns] = tenant.job->counted_interval();
    begin_ns = std::min(begin_ns, begin_of_job_ns);
    end_ns = std::max(end_ns, end_of_job_ns);
  }
  return {begin_ns, end_ns};
}

asio::awaitable<void> ask_hosts(LiveTrial& trial) {
  if (trial.placement.is_attached) { co_return; }  // their hosts are not ours to ask
  auto& hosts = trial.context.hosts;
  trial.watched = co_await hosts.ask(&RunHosts::watched);
  for (auto& tenant : trial.trainers()) {
    for (auto& node : tenant.nodes) {
      const auto& placed = *node.live.placement;
      node.numa_nodes = co_await hosts.ask(&RunHosts::numa_nodes_of, placed.host, placed.cores);
    }
  }
}

TrialEvidence gather_evidence(LiveTrial& trial) {
  TrialEvidence evidence;
  for (const auto& tenant : trial.trainers()) { evidence.tenants.push_back(tenant_evidence(trial, tenant)); }
  const auto [begin_ns, end_ns] = counted_interval(trial);
  for (const auto& tenant : trial.tenants) {
    if (tenant.stress) { evidence.aggressors = tenant.stress->evidence(begin_ns, end_ns); }
  }
  evidence.hosts = trial.watched;
  evidence.host_boot_ids = trial.context.boot_ids;
  evidence.standstill_seconds = static_cast<double>(trial.longest_standstill_ns) * 1e-9;
  return evidence;
}

std::int64_t network_bytes_required(const LiveTenant& tenant) {
  // Gradients that go through shared memory or an adapter of the tenant's own pass by its veths and taps.
  if (tenant.plan.has_rdma_adapter()) { return 0; }
  if (tenant.runs_job()) { return 0; }  // nobody knows what a command sends
  const auto& workload = tenant.plan.workload;
  return all_reduce_bytes_per_node(std::ssize(tenant.nodes), workload.warmup_steps + workload.steps,
                                   gradient_bytes_per_step(workload, tenant.job->ranks()));
}

std::optional<std::int64_t> network_bytes_measured(const LiveTenant& tenant) {
  double sent = 0;  // guests may have said any numbers
  for (const auto& node : tenant.nodes) {
    if (!node.after) { return std::nullopt; }
    // Less than before where the counter is gone.
    sent += static_cast<double>(std::max(node.after->network_tx_bytes, node.before.network_tx_bytes) -
                                node.before.network_tx_bytes);
  }
  constexpr double most = 9e18;
  const auto nodes = static_cast<double>(std::max<std::size_t>(1, tenant.nodes.size()));
  return static_cast<std::int64_t>(std::min(sent / nodes, most));
}

}  // namespace virtrain::harness
