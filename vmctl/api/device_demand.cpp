#include "vmctl/api/device_demand.h"

#include <algorithm>

namespace virtrain::vmctl {

std::vector<PlacedDevice> DeviceDemand::devices() const {
  std::vector<PlacedDevice> all;
  for (const auto& vm : vms) { all.insert(all.end(), vm.devices.begin(), vm.devices.end()); }
  return all;
}

bool DeviceDemand::wants(GrantKind kind) const {
  const auto all = devices();
  return std::ranges::any_of(all, [&](const auto& device) { return device.grant.kind == kind; });
}

bool has_huge_region(const std::vector<Bar>& bars) {
  return std::ranges::any_of(bars, [](const auto& bar) { return bar.bytes >= huge_region_bytes; });
}

std::uint64_t region_bytes(const std::vector<PlacedDevice>& devices) {
  std::uint64_t sum = 0;
  for (const auto& device : devices) { sum += region_bytes(device.bars); }
  return sum;
}

std::uint64_t region_bytes(const std::vector<Bar>& bars) {
  std::uint64_t sum = 0;
  for (const auto& bar : bars) {
    if (bar.is_64bit) { sum += bar.bytes; }
  }
  return 2 * sum;
}

}  // namespace virtrain::vmctl
