#include "harness/plan/placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/units.h"
#include "harness/plan/cores.h"

namespace virtrain::harness {
namespace {

/// Resident memory of QEMU beside the guest's own: measured 286-351 MiB under TCG, far less under KVM.
constexpr std::uint64_t kEmulatedOverheadBytes = 350ULL << 20;
constexpr std::uint64_t kKvmOverheadBytes = 150ULL << 20;

/// Of a CPU rank with the smallest batch: parameters, gradients, momentum, and what the libraries take (seen:
/// 350 MiB alone, 350-440 MiB with others).
constexpr std::uint64_t kLeastRankBytes = 400ULL << 20;

NodePlacement make_node(std::size_t tenant, std::int64_t n, std::int64_t index) {
  NodePlacement node;
  node.hostname = fmt::format("t{}n{}", tenant + 1, n + 1);
  // Each tenant's network is a bridge of its own, so all of them may use the same addresses.
  node.address = fmt::format("10.77.{}.{}/16", n / 250, n % 250 + 1);
  node.mac =
      fmt::format("52:54:00:{:02x}:{:02x}:{:02x}", index >> 16 & 0xff, index >> 8 & 0xff, index & 0xff);
  return node;
}

/// `left` are the cores of no node; but where cores are shared, vCPUs may sit there too.
void give_emulator_cores(Placement& placement, const std::vector<int>& left) {
  std::set<int> used;
  for (const auto& tenant : placement.tenants)
    for (const auto& node : tenant.nodes) used.insert(node.cores.begin(), node.cores.end());
  std::vector<int> spare;
  for (const int core : left)
    if (!used.contains(core)) spare.push_back(core);
  for (auto& tenant : placement.tenants)
    for (auto& node : tenant.nodes) node.emulator_cores = spare;
}

}  // namespace

Placement Placer::place(const Case& wanted) {
  Placement out{wanted.name, wanted.scaling_of, {}, false};
  auto gpus = selected_gpus(scenario_.devices, inventory_);
  check_totals(wanted, gpus.size(), out);
  warn_of_little_memory(wanted);
  std::int64_t index = 0;
  for (const auto& tenant : wanted.tenants) {
    TenantPlacement placed{tenant.name, tenant.workload, tenant.gpus_per_node, tenant.ranks_per_node, 1, {}};
    placed.threads_per_rank = tenant.workload.threads.value_or(
        std::max<std::int64_t>(1, scenario_.guest.vcpus / tenant.ranks_per_node));
    for (std::int64_t n = 0; n < tenant.nodes; ++n, ++index) {
      auto node = make_node(out.tenants.size(), n, index);
      node.memory_bytes = scenario_.guest.memory_bytes;
      placed.nodes.push_back(std::move(node));
    }
    out.tenants.push_back(std::move(placed));
  }
  place_gpus(out, GpuAllocator(std::move(gpus)));
  place_cores(out);
  return out;
}

/// Nodes with the most GPUs choose first, so that single ones do not break pairs up.
void Placer::place_gpus(Placement& out, GpuAllocator gpus) {
  std::vector<TenantPlacement*> tenants;
  for (auto& tenant : out.tenants) tenants.push_back(&tenant);
  std::stable_sort(tenants.begin(), tenants.end(),
                   [](const auto* a, const auto* b) { return a->gpus_per_node > b->gpus_per_node; });
  for (auto* tenant : tenants) {
    for (auto& node : tenant->nodes) {
      const auto choice = gpus.take(static_cast<std::size_t>(tenant->gpus_per_node));
      for (const auto* gpu : choice.gpus) node.devices.push_back(gpu->function.address);
      node.devices_reason = choice.reason;
      node.numa_node = choice.numa_node;
      const bool could_be = std::any_of(choice.gpus.begin(), choice.gpus.end(),
                                        [](const auto* gpu) { return !gpu->nvlink_peers.empty(); });
      if (could_be && !choice.joined_by_nvlink)
        warnings_.push_back(fmt::format("case {}: the GPUs of {} are not all joined by NVLink ({})",
                                        out.case_name, node.hostname, choice.reason));
    }
  }
}

/// Cores near the node's GPUs where it has any (place_gpus() has set their NUMA node).
void Placer::place_cores(Placement& out) {
  const auto count = static_cast<std::size_t>(scenario_.guest.vcpus);
  CoreAllocator cores(inventory_, static_cast<std::size_t>(out.nodes()) * count,
                      scenario_.guest.pinning == Pinning::numa);
  for (auto& tenant : out.tenants) {
    for (auto& node : tenant.nodes) {
      const auto near_gpus = node.numa_node;
      node.cores = cores.take(count, near_gpus);
      if (node.cores.empty() && !inventory_.cores.empty()) node.cores = cores.share(count);
      node.numa_node = cores.common_numa_node(node.cores);
      if (near_gpus && node.numa_node != near_gpus)
        warnings_.push_back(fmt::format("case {}: {} has its GPUs on NUMA node {} and its cores elsewhere",
                                        out.case_name, node.hostname, *near_gpus));
    }
  }
  give_emulator_cores(out, cores.remaining());
}

void Placer::check_totals(const Case& wanted, std::size_t gpus_here, Placement& out) {
  const auto cores = inventory_.cores.size();
  std::int64_t nodes = 0, gpus = 0, needed = 0;
  bool crowded = false;  // a node's ranks share its vCPUs, however many cores the host has
  for (const auto& tenant : wanted.tenants) {
    nodes += tenant.nodes;
    gpus += tenant.nodes * tenant.gpus_per_node;
    needed += tenant.nodes * std::max(scenario_.guest.vcpus, tenant.ranks_per_node);
    crowded = crowded || tenant.ranks_per_node > scenario_.guest.vcpus;
  }
  out.oversubscribed = crowded || needed > static_cast<std::int64_t>(cores);
  if (inventory_.cores.empty()) problems_.push_back("no core of this host may be used");
  if (crowded && !scenario_.oversubscribe)
    problems_.push_back(fmt::format(
        "case {}: its nodes have {} vCPUs, fewer than ranks (use more vcpus, or oversubscribe: true)",
        wanted.name, scenario_.guest.vcpus));
  else if (out.oversubscribed && !scenario_.oversubscribe)
    problems_.push_back(fmt::format(
        "case {}: {} nodes of {} vCPUs need {} cores, {} has {} (use fewer, or oversubscribe: true)",
        wanted.name, nodes, scenario_.guest.vcpus, needed, inventory_.hostname, cores));
  const std::uint64_t overhead = emulated_ ? kEmulatedOverheadBytes : kKvmOverheadBytes;
  const std::uint64_t memory = static_cast<std::uint64_t>(nodes) * (scenario_.guest.memory_bytes + overhead);
  if (memory > inventory_.memory_bytes)
    problems_.push_back(fmt::format("case {}: {} nodes of {} and QEMU's own {} each need {}, {} has {}",
                                    wanted.name, nodes, format_size(scenario_.guest.memory_bytes),
                                    format_size(overhead), format_size(memory), inventory_.hostname,
                                    format_size(inventory_.memory_bytes)));
  if (gpus > static_cast<std::int64_t>(gpus_here))
    problems_.push_back(fmt::format(
        "case {}: needs {} GPUs, {} has {} that devices.select allows (virtrain doctor says more)",
        wanted.name, gpus, inventory_.hostname, gpus_here));
}

void Placer::warn_of_little_memory(const Case& wanted) {
  std::int64_t ranks = 0;
  for (const auto& tenant : wanted.tenants)
    if (tenant.workload.backend == Backend::cpu) ranks = std::max(ranks, tenant.ranks_per_node);
  const auto needed = static_cast<std::uint64_t>(ranks) * kLeastRankBytes;
  if (needed > scenario_.guest.memory_bytes)
    warnings_.push_back(fmt::format(
        "case {}: {} ranks in a node of {} will most likely be killed for want of memory (each takes at "
        "least {})",
        wanted.name, ranks, format_size(scenario_.guest.memory_bytes), format_size(kLeastRankBytes)));
}

}  // namespace virtrain::harness
