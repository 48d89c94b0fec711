#include "vmctl/devices/acs.h"

#include <fmt/format.h>

#include "common/files/reading.h"
#include "common/text/text.h"

namespace virtrain::vmctl {

std::map<std::string, AcsControl> acs_above(const std::filesystem::path& root,
                                            const std::vector<const HostDevice*>& devices) {
  std::map<std::string, AcsControl> found;
  for (const auto* device : devices) {
    for (const auto& bridge : device->function.bridges) {
      PciFunction function;
      function.folder = root / "sys/bus/pci/devices" / bridge;
      if (const auto acs = acs_control(read_pci_config(function))) { found.emplace(bridge, *acs); }
    }
  }
  return found;
}

std::vector<std::string> acs_gaps(const std::map<std::string, AcsControl>& bridges) {
  std::vector<std::string> gaps;
  for (const auto& [bridge, acs] : bridges) {
    std::vector<std::string> missing;
    if (!acs.request_redirect) { missing.emplace_back("RR"); }
    if (!acs.completion_redirect) { missing.emplace_back("CR"); }
    if (!acs.upstream_forwarding) { missing.emplace_back("UF"); }
    if (!missing.empty()) { gaps.push_back(fmt::format("{} without {}", bridge, join(missing, " "))); }
  }
  return gaps;
}

bool allows_unsafe_interrupts(const std::filesystem::path& root) {
  return read_value(root / "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts") == "Y";
}

}  // namespace virtrain::vmctl
