#include "harness/experiment/diagnosed_host.h"

#include <utility>

namespace virtrain::harness {

results::DiagnosedHost diagnosed_host(const vmctl::Inventory& inventory, std::vector<Finding> checks) {
  results::DiagnosedHost found;
  found.name = inventory.hostname;
  found.checks = std::move(checks);
  for (const auto* devices : {&inventory.devices, &inventory.other_devices}) {
    for (const auto& device : *devices) {
      auto& function = found.functions[device.function.address];
      function.numa_node = device.function.numa_node;
      for (const auto& bar : device.function.bars) { function.bar_bytes += bar.is_64bit ? bar.bytes : 0; }
      found.gpus += device.device_class == vmctl::DeviceClass::gpu ? 1 : 0;
    }
  }
  for (const auto& core : inventory.cores) { found.node_of_cpu[core.id] = core.numa_node; }
  return found;
}

}  // namespace virtrain::harness
