#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

/// Resident memory of QEMU beside its guest's own. Emulation takes more.
std::uint64_t qemu_overhead(bool emulated);

/// Memory of a case's VMs in pages of one size.
struct WantedMemory {
  std::map<int, std::uint64_t> by_node;  ///< by NUMA node, what has to come from there
  std::uint64_t bytes = 0;               ///< of all VMs
};
WantedMemory wanted_memory(const Placement& placement, const Guest& guest, std::uint64_t page,
                           std::uint64_t overhead);

/// Memory of the host's NUMA nodes, or their huge pages, for nodes that take it where their cores are.
struct NumaMemory {
  std::map<int, std::uint64_t> left;  ///< by NUMA node
  std::uint64_t of_one = 0;           ///< what each node of the case takes
};
/// Nothing where a guest's memory may come from any NUMA node.
std::optional<NumaMemory> numa_memory(const vmctl::Inventory& inventory, const Guest& guest, bool emulated);

/// Why the host's memory does not suffice for bare-metal trials beside VMs that are kept for their case's
/// later trials (reuse: case); nothing where it does.
std::vector<std::string> kept_memory_problems(const Scenario& scenario, const Plan& plan,
                                              const vmctl::Inventory& inventory, bool emulated);

/// Warning that the plan's nodes have more cores than the CPU time that virtrain's cgroup grants; empty where
/// they have not.
std::string quota_warning(const Plan& plan, const vmctl::Inventory& inventory);

}  // namespace virtrain::harness
