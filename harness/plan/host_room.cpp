#include "harness/plan/host_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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

CoreAllocator::CoreAllocator(const vmctl::Inventory& inventory, std::size_t wanted,
                             std::optional<NumaMemory> memory, vmctl::Smt smt)
    : memory_(std::move(memory)), smt_(smt) {
  const std::set<int> leased(inventory.leased_cores.begin(), inventory.leased_cores.end());
  const auto is_leased = [&](const vmctl::Core& core) { return leased.contains(core.id); };
  const auto held = std::count_if(inventory.cores.begin(), inventory.cores.end(), is_leased);
  const bool avoid_leased = inventory.cores.size() - static_cast<std::size_t>(held) >= wanted;
  for (const auto& core : inventory.cores) {
    physical_[core.id] = core.first_sibling;
    cache_[core.id] = core.last_level_cache;
    if (avoid_leased && is_leased(core)) { continue; }
    free_.push_back(core.id);
    all_.push_back(core.id);
    numa_of_[core.id] = core.numa_node;
  }
  for (const auto& core : inventory.cores) {
    if (is_leased(core)) { note_taken({core.id}); }
  }
}

std::vector<int> CoreAllocator::take(std::size_t count, std::optional<int> numa_node) {
  const auto usable_now = usable();
  if (usable_now.size() < count) { return {}; }
  if (numa_node) {
    if (auto near = cores_of(*numa_node); near.size() >= count) { return take_these(std::move(near), count); }
  }
  if (!memory_) { return take_these(usable_now, count); }
  std::set<int> in_order;
  for (const int core : usable_now) { in_order.insert(numa_of_.at(core)); }
  std::vector<int> nodes(in_order.begin(), in_order.end());
  std::stable_partition(nodes.begin(), nodes.end(), [&](int node) { return has_memory(node); });
  std::vector<int> node_by_node;
  for (const int node : nodes) {
    auto cores = cores_of(node);
    if (cores.size() >= count) { return take_these(std::move(cores), count); }
    node_by_node.insert(node_by_node.end(), cores.begin(), cores.end());
  }
  return take_these(std::move(node_by_node), count);
}

std::vector<int> CoreAllocator::take_over(std::size_t count, const std::vector<int>& numa_nodes) {
  std::vector<int> together;
  for (std::size_t i = 0; i < numa_nodes.size(); ++i) {
    // The first nodes get one more where it does not come out even.
    const std::size_t share = count / numa_nodes.size() + (i < count % numa_nodes.size() ? 1 : 0);
    auto cores = cores_of(numa_nodes[i]);
    if (cores.size() < share) { return {}; }
    cores.resize(share);
    together.insert(together.end(), cores.begin(), cores.end());
  }
  return take_these(std::move(together), count);
}

bool CoreAllocator::has_memory(int numa_node) const {
  const auto found = memory_->left.find(numa_node);
  return found != memory_->left.end() && found->second >= memory_->of_one;
}

void CoreAllocator::take_memory(const std::vector<int>& cores) {
  if (!memory_) { return; }
  std::map<int, std::size_t> by_node;
  for (const int core : cores) { ++by_node[numa_of_.at(core)]; }
  for (const auto& [node, count] : by_node) {
    auto& left = memory_->left[node];
    left -= std::min(left, by_node.size() == 1 ? memory_->of_one : memory_->of_one / cores.size() * count);
  }
}

std::vector<int> CoreAllocator::usable() const {
  if (smt_ == vmctl::Smt::any) { return free_; }
  std::map<int, std::vector<int>> threads;  // by core that nobody has; one without siblings is its own
  for (const int core : free_) {
    const int physical = physical_.at(core);
    if (!taken_physical_.contains(physical)) { threads[physical >= 0 ? physical : core].push_back(core); }
  }
  std::vector<int> cores;
  for (const auto& [physical, of_core] : threads) {
    if (smt_ == vmctl::Smt::apart) {
      cores.push_back(of_core.front());
    } else if (of_core.size() > 1) {
      cores.insert(cores.end(), of_core.begin(), of_core.end());
    }
  }
  return cores;
}

std::vector<int> CoreAllocator::cores_of(int numa_node) const {
  auto cores = usable();
  std::erase_if(cores, [&](int core) { return numa_of_.at(core) != numa_node; });
  return cores;
}

std::vector<int> CoreAllocator::remaining() const {
  std::vector<int> alone;
  std::copy_if(free_.begin(), free_.end(), std::back_inserter(alone),
               [&](int core) { return !taken_physical_.contains(physical_.at(core)); });
  return alone.empty() ? free_ : alone;
}

void CoreAllocator::note_taken(const std::vector<int>& cores) {
  for (const int core : cores) {
    ++users_[core];
    if (physical_.at(core) >= 0) { taken_physical_.insert(physical_.at(core)); }
  }
}

std::vector<int> CoreAllocator::take_these(std::vector<int> cores, std::size_t count) {
  cores.resize(count);
  // In a VM over several nodes each node's vCPUs are neighbours, as its sockets are.
  std::ranges::stable_sort(cores, {}, [&](int core) { return numa_of_.at(core); });
  note_taken(cores);
  const std::set<int> taken(cores.begin(), cores.end());
  std::erase_if(free_, [&](int core) { return taken.contains(core); });
  return cores;
}

std::vector<int> CoreAllocator::share(std::size_t count) {
  auto least_used = all_;
  std::stable_sort(least_used.begin(), least_used.end(), [&](int a, int b) { return users_[a] < users_[b]; });
  std::vector<int> cores;
  for (std::size_t i = 0; i < count; ++i) { cores.push_back(least_used[i % least_used.size()]); }
  return take_these(std::move(cores), count);
}

std::vector<int> CoreAllocator::beside(const std::vector<int>& cores, std::size_t count) {
  std::vector<int> siblings;
  std::copy_if(free_.begin(), free_.end(), std::back_inserter(siblings), [&](int core) {
    return physical_.at(core) >= 0 && std::any_of(cores.begin(), cores.end(), [&](int taken) {
             return physical_.at(taken) == physical_.at(core);
           });
  });
  if (siblings.size() >= count) { return take_these(std::move(siblings), count); }
  std::vector<int> same;
  for (std::size_t i = 0; i < count && !cores.empty(); ++i) { same.push_back(cores[i % cores.size()]); }
  note_taken(same);
  return same;
}

std::vector<int> CoreAllocator::take_sharing_cache(const std::vector<int>& cores, std::size_t count) {
  auto near = usable();
  std::erase_if(near, [&](int core) {
    return cache_.at(core) < 0 || cores.empty() || cache_.at(core) != cache_.at(cores[0]);
  });
  return near.size() < count ? std::vector<int>() : take_these(std::move(near), count);
}

std::vector<int> CoreAllocator::numa_nodes_of(const std::vector<int>& cores) const {
  std::vector<int> nodes(cores.size());
  std::transform(cores.begin(), cores.end(), nodes.begin(), [&](int core) { return numa_of_.at(core); });
  return nodes;
}

std::optional<int> CoreAllocator::common_numa_node(const std::vector<int>& cores) const {
  for (const int core : cores) {
    if (numa_of_.at(core) != numa_of_.at(cores[0])) { return std::nullopt; }
  }
  return cores.empty() ? std::nullopt : std::optional(numa_of_.at(cores[0]));
}

}  // namespace virtrain::harness
