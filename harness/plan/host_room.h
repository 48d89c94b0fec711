#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "vmctl/api/inventory.h"
#include "vmctl/api/node.h"

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

/// Hands out cores of one host, NUMA node by NUMA node.
class CoreAllocator {
 public:
  /// Takes from all the host's cores, or from those that no other run holds where `wanted` of them are left.
  /// With `memory` cores of one NUMA node stay together even where nobody asks for that node.
  CoreAllocator(const vmctl::Inventory& inventory, std::size_t wanted, std::optional<NumaMemory> memory,
                vmctl::Smt smt = vmctl::Smt::any);

  /// `count` cores: of `numa_node` where it has that many left, else of one node that has, if possible with
  /// the memory too, else of several; none when too few are left.
  std::vector<int> take(std::size_t count, std::optional<int> numa_node);
  /// The memory of a node with these cores comes from where they are.
  void take_memory(const std::vector<int>& cores);
  /// `count` cores in equal shares of these NUMA nodes, one node after the other; none where one has too few.
  std::vector<int> take_over(std::size_t count, const std::vector<int>& numa_nodes);
  /// Cores where too few are left: those that nobody has, then those that the fewest nodes have.
  std::vector<int> share(std::size_t count);

  /// For a neighbour of nodes on these cores: threads of their physical cores that nobody took, where there
  /// are enough, else the very same cores.
  std::vector<int> beside(const std::vector<int>& cores, std::size_t count);
  /// `count` cores that nobody took and that share these cores' last-level cache; none when too few do.
  std::vector<int> take_sharing_cache(const std::vector<int>& cores, std::size_t count);

  /// Free cores: only those whose other threads are free too, if there are any.
  std::vector<int> remaining() const;
  /// The NUMA node of all of these; nothing where they are of several.
  std::vector<int> numa_nodes_of(const std::vector<int>& cores) const;
  std::optional<int> common_numa_node(const std::vector<int>& cores) const;

 private:
  /// Cores that may be taken next: with threads apart one of each free core, with siblings those of free
  /// cores with two, core by core.
  std::vector<int> usable() const;
  std::vector<int> cores_of(int numa_node) const;
  bool has_memory(int numa_node) const;
  void note_taken(const std::vector<int>& cores);
  std::vector<int> take_these(std::vector<int> cores, std::size_t count);

  std::optional<NumaMemory> memory_;
  vmctl::Smt smt_;
  std::vector<int> free_;
  std::map<int, int> numa_of_;
  std::map<int, int> cache_;      ///< by core, its Core::last_level_cache
  std::map<int, int> physical_;   ///< by core, its Core::first_sibling
  std::set<int> taken_physical_;  ///< of cores with several threads, those of which one is taken or leased
  std::vector<int> all_;
  std::map<int, int> users_;  ///< by core, nodes that have it
};

}  // namespace virtrain::harness
