#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "common/error.h"
#include "harness/plan/node_group.h"
#include "harness/plan/plan.h"
#include "tests/support/catch.h"
#include "vmctl/host/judge.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::harness {

inline constexpr std::uint64_t gib = 1ULL << 30;

/// A host of `nodes` NUMA nodes with as many cores, numbered one node after the other, and as much memory
/// each.
inline vmctl::Inventory host(int nodes, int cores_per_node, std::uint64_t memory_gib = 1024) {
  vmctl::Inventory inventory;
  inventory.hostname = "testhost";
  for (int n = 0; n < nodes; ++n) {
    inventory.numa_nodes.push_back({n, memory_gib * gib / static_cast<std::uint64_t>(nodes), 0, 0});
    for (int c = 0; c < cores_per_node; ++c) { inventory.cores.push_back({n * cores_per_node + c, n}); }
  }
  inventory.memory_bytes = memory_gib * gib;
  return inventory;
}

/// One of the hosts that scripts/reference/make_host_trees.py has written.
inline vmctl::Inventory host(const std::string& name) {
  const auto folder = std::filesystem::path(VIRTRAIN_BINARY_DIR) / "hosts" / name;
  REQUIRE(std::filesystem::exists(folder));
  return vmctl::load_inventory(folder);
}

/// What the host would be asked for: it refuses none of it.
inline void require_allowed(const Plan& plan, const vmctl::Inventory& inventory) {
  const auto resources = resources_of(plan)[""];
  CHECK_NOTHROW(vmctl::judge_resources(inventory, resources));
  const auto require = [&](std::size_t placement, const std::string& base) {
    const auto& placed = plan.placements.at(placement);
    const auto grants = grants_of(placed, "20261120t083012-7f3a2b")[""];
    INFO(placed.case_name << " " << base);
    CHECK_NOTHROW(vmctl::judge_nodes(inventory, resources, node_group(placed, base)));
    CHECK_NOTHROW(vmctl::judge_grants(inventory, resources, grants));
    CHECK_NOTHROW(vmctl::judge_settings(placed.devices.settings));
    if (runs_in_vms(base)) { CHECK_NOTHROW(vmctl::judge_lending(inventory, resources, grants)); }
  };
  for (const auto& trial : plan.trials) { require(trial.placement, trial.base); }
  for (const auto& arm : plan.security) {
    for (const auto& placement : {std::optional(arm.placement), arm.device_placement, arm.peer_placement}) {
      if (placement) { require(*placement, arm.base); }
    }
  }
}

/// make_plan(), and the host would allow all of it.
inline Plan allowed_plan(const Scenario& s, const vmctl::Inventory& inventory, bool emulated) {
  auto plan = make_plan(s, inventory, emulated);
  require_allowed(plan, inventory);
  return plan;
}

inline Plan plan_of(const Scenario& s, const vmctl::Inventory& inventory) {
  return allowed_plan(s, inventory, false);
}

/// Of the plan's first case.
inline const NodePlacement& node(const Plan& plan, std::size_t tenant, std::size_t n = 0) {
  return plan.placements.at(0).tenants.at(tenant).nodes.at(n);
}

inline vmctl::HostDevice& at(vmctl::Inventory& inventory, const std::string& address) {
  for (auto* list : {&inventory.devices, &inventory.other_devices}) {
    for (auto& device : *list) {
      if (device.function.address == address) { return device; }
    }
  }
  throw std::runtime_error("no device " + address);
}

/// Why there is no plan, which ends with this exit status; "(planned)" if there is one.
inline std::string refusal(const Scenario& s, const vmctl::Inventory& inventory, int status = 4,
                           bool emulated = false) {
  try {
    allowed_plan(s, inventory, emulated);
  } catch (const Error& error) {
    CHECK(exit_status(error.code()) == status);
    return error.message();
  }
  return "(planned)";
}

}  // namespace virtrain::harness
