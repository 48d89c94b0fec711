#include "harness/plan/device_demand.h"

#include <algorithm>

namespace virtrain::harness {

bool lends_to_vms(const Scenario& scenario) {
  return has_arm(scenario, arm_vm);
}

int own_address_bits(const Guest& guest) {
  return guest.cpu_model == vmctl::host_cpu_model ? 0 : vmctl::address_bits_of_named_cpu;
}

namespace {

/// As the host has read them: the address of a network is the node's.
std::vector<vmctl::PlacedDevice> demanded(const NodePlacement& node) {
  auto devices = node.devices;
  if (node.network_function) { devices.push_back(*node.network_function); }
  return devices;
}

}  // namespace

std::vector<vmctl::DeviceDemand> device_demands(const Plan& plan, const Scenario& scenario) {
  std::vector<vmctl::DeviceDemand> demands;
  if (!lends_to_vms(scenario)) {
    return demands;  // bare metal has them from the host's own driver
  }
  for (const auto& placement : plan.placements) {
    vmctl::DeviceDemand demand;
    demand.clique = placement.devices.clique;
    demand.several_tenants = placement.tenants.size() > 1;
    demand.hugepages = placement.guest.hugepages;
    demand.boot_timeout_ns = scenario.boot_timeout_ns;
    demand.memory_encryption = placement.guest.memory_encryption;
    demand.vgpu_scheduler = placement.devices.vgpu_scheduler;
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) {
        demand.vms.push_back({demanded(node), node.memory_bytes,
                              placement.guest.pinning == Pinning::numa ? node.numa_node : std::nullopt,
                              own_address_bits(placement.guest)});
      }
    }
    if (!demand.devices().empty() || is_confidential(demand.memory_encryption)) {
      demands.push_back(std::move(demand));
    }
  }
  return demands;
}

}  // namespace virtrain::harness
