#include "harness/evidence/trial_evidence.h"

#include <utility>

namespace virtrain::harness {

NodeEvidence placed_evidence(const NodePlacement& placed, std::vector<int> core_numa_nodes) {
  NodeEvidence seen;
  seen.hostname = placed.hostname;
  seen.devices = vmctl::devices_of(placed).size();
  if (placed.devices.empty()) { return seen; }
  seen.core_numa_nodes = std::move(core_numa_nodes);
  seen.memory_numa_node = placed.numa_node;
  for (const auto& device : placed.devices) {
    if (device.device_class == vmctl::DeviceClass::gpu) { seen.gpu_numa_nodes.push_back(device.numa_node); }
  }
  return seen;
}

}  // namespace virtrain::harness
