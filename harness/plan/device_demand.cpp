#include "harness/plan/device_demand.h"

#include <algorithm>

namespace virtrain::harness {

bool lends_to_vms(const Scenario& scenario) {
  return std::any_of(scenario.arms.begin(), scenario.arms.end(),
                     [](const auto& arm) { return arm != arm_bare_metal && arm != arm_bare_metal_shared; });
}

std::vector<vmctl::DeviceDemand> device_demands(const Plan& plan, const Scenario& scenario) {
  std::vector<vmctl::DeviceDemand> demands;
  if (!lends_to_vms(scenario)) {
    return demands;  // bare metal has them from the host's own driver
  }
  for (const auto& placement : plan.placements) {
    vmctl::DeviceDemand demand;
    demand.clique = scenario.devices.clique;
    demand.several_tenants = placement.tenants.size() > 1;
    demand.hugepages = scenario.guest.hugepages;
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        demand.vms.push_back({node.devices, node.memory_bytes,
                              scenario.guest.pinning == Pinning::numa ? node.numa_node : std::nullopt});
      }
    }
    if (!demand.devices().empty()) { demands.push_back(std::move(demand)); }
  }
  return demands;
}

}  // namespace virtrain::harness
