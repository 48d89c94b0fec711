#include "vmctl/doctor/checks/tables.h"

#include <vector>

namespace virtrain::vmctl {

std::span<const DeviceCheck> device_checks() {
  static const auto all = [] {
    std::vector<DeviceCheck> joined;
    for (const auto table : {machine_checks(), iommu_checks(), version_checks(), driver_checks(),
                             link_checks(), memory_checks(), vgpu_checks(), health_checks()}) {
      joined.insert(joined.end(), table.begin(), table.end());
    }
    return joined;
  }();
  return all;
}

}  // namespace virtrain::vmctl
