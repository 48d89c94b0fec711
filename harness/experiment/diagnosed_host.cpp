#include "harness/experiment/diagnosed_host.h"

#include <utility>

#include "vmctl/api/device_demand.h"

namespace virtrain::harness {

results::DiagnosedHost diagnosed_host(const vmctl::Inventory& inventory, std::vector<Finding> checks) {
  results::DiagnosedHost found;
  found.name = inventory.hostname;
  found.checks = std::move(checks);
  found.room_of_named_cpu = vmctl::region_room(vmctl::address_bits_of_named_cpu);
  for (const auto* devices : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *devices) {
      auto& function = found.functions[device.function.address];
      function.numa_node = device.function.numa_node;
      function.region_bytes = vmctl::region_bytes(device.function.bars);
      found.gpus += device.device_class == vmctl::DeviceClass::gpu ? 1 : 0;
    }
  }
  for (const auto& core : inventory.cores) { found.node_of_cpu[core.id] = core.numa_node; }
  return found;
}

}  // namespace virtrain::harness
