#include "harness/plan/host_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text/units.h"
#include "harness/plan/node_group.h"

namespace virtrain::harness {
namespace {

/// Measured 286-351 MiB under TCG, far less under KVM.
constexpr std::uint64_t emulated_overhead_bytes = 350ULL << 20;
constexpr std::uint64_t kvm_overhead_bytes = 150ULL << 20;

std::uint64_t in_pages(std::uint64_t bytes, std::uint64_t page) {
  return (bytes + page - 1) / page * page;
}

std::uint64_t memory_of_nodes(const Placement& placement) {
  return static_cast<std::uint64_t>(placement.nodes()) * placement.guest.memory_bytes;
}

/// By placement, the order of its last trial in VMs; 0: it has none.
std::vector<std::int64_t> last_vm_trials(const Plan& plan) {
  std::vector<std::int64_t> last(plan.placements.size(), 0);
  for (const auto& trial : plan.trials) {
    if (runs_in_vms(trial.base)) { last[trial.placement] = trial.order; }
  }
  return last;
}

std::size_t cores_of_nodes(const Placement& placement) {
  std::set<int> cores;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) { cores.insert(node.cores.begin(), node.cores.end()); }
  }
  return cores.size();
}

}  // namespace

std::uint64_t qemu_overhead(bool emulated) {
  return emulated ? emulated_overhead_bytes : kvm_overhead_bytes;
}

WantedMemory wanted_memory(const Placement& placement, const Guest& guest, std::uint64_t page,
                           std::uint64_t overhead) {
  WantedMemory wanted;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) {
      wanted.bytes += in_pages(node.memory_bytes, page) + overhead;
      const auto memory = memory_by_host_node(guest, node);
      for (const auto& [id, bytes] : memory) {
        wanted.by_node[id] += in_pages(bytes, page) + overhead / memory.size();
      }
    }
  }
  return wanted;
}

std::optional<NumaMemory> numa_memory(const vmctl::Inventory& inventory, const Guest& guest, bool emulated) {
  if (guest.pinning != Pinning::numa) { return std::nullopt; }
  NumaMemory memory;
  for (const auto& node : inventory.numa_nodes) {
    memory.left[node.id] = guest.hugepages
                               ? free_hugepage_bytes(inventory, node) + inventory.surplus_hugepage_bytes
                               : node.memory_bytes;
  }
  memory.of_one = guest.hugepages ? in_pages(guest.memory_bytes, inventory.hugepage_bytes)
                                  : guest.memory_bytes + qemu_overhead(emulated);
  return memory;
}

std::vector<std::string> kept_memory_problems(const Scenario& scenario, const Plan& plan,
                                              const vmctl::Inventory& inventory, bool emulated) {
  if (scenario.reuse != Reuse::experiment_case) { return {}; }
  std::vector<std::string> problems;
  const auto last = last_vm_trials(plan);
  const Placement* kept = nullptr;
  std::set<std::pair<const Placement*, const Placement*>> seen;
  for (const auto& trial : plan.trials) {
    const auto& placement = plan.placements[trial.placement];
    if (runs_in_vms(trial.base)) {
      kept = last[trial.placement] > trial.order ? &placement : nullptr;
      continue;
    }
    if (kept == nullptr || placement.is_attached || !seen.insert({kept, &placement}).second) { continue; }
    const auto vms =
        memory_of_nodes(*kept) + static_cast<std::uint64_t>(kept->nodes()) * qemu_overhead(emulated);
    const auto slices = memory_of_nodes(placement);
    if (vms + slices <= inventory.memory_bytes) { continue; }
    problems.push_back(fmt::format(
        "case {}: reuse: case keeps its VMs ({}, QEMU's own included) while {} runs ({}), which is {} "
        "together; host {} has {} (use less memory, or reuse: trial)",
        placement.case_name, format_size(vms), trial.arm, format_size(slices), format_size(vms + slices),
        inventory.hostname, format_size(inventory.memory_bytes)));
  }
  return problems;
}

std::string quota_warning(const Plan& plan, const vmctl::Inventory& inventory) {
  std::size_t most = 0;
  for (const auto& placement : plan.placements) { most = std::max(most, cores_of_nodes(placement)); }
  const auto& quota = inventory.cpu_quota_cores;
  if (!quota || static_cast<double>(most) <= *quota) { return ""; }
  return fmt::format(
      "nodes are planned on {}, but the cgroup of this process grants CPU time for {:.4g}: the kernel will "
      "stop ranks in bursts and figures will be too low: {}, or use fewer vcpus",
      counted(most, "core"), *quota, vmctl::raise_cpu_quota);
}

}  // namespace virtrain::harness
