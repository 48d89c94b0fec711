#include "vmctl/machine/cross_check.h"

#include <fmt/format.h>

#include <map>

namespace virtrain::vmctl {
namespace {

std::string words(const std::optional<int>& group) {
  return group ? std::to_string(*group) : "none";
}

std::string words(const std::string& driver) {
  return driver.empty() ? "none" : driver;
}

}  // namespace

std::vector<std::string> disagreements(const std::vector<HostDevice>& devices,
                                       const std::vector<NodeDevice>& node_devices) {
  std::map<std::string, const NodeDevice*> seen;
  for (const auto& device : node_devices) { seen[device.pci_address] = &device; }
  std::vector<std::string> found;
  for (const auto& device : devices) {
    const auto& pci = device.function;
    const auto other = seen.find(pci.address);
    if (other == seen.end()) {
      found.push_back(fmt::format("{}: libvirt does not see it", pci.address));
      continue;
    }
    const auto& theirs = *other->second;
    if (theirs.iommu_group != pci.iommu_group) {
      found.push_back(fmt::format("{}: IOMMU group {} in sysfs, {} in libvirt", pci.address,
                                  words(pci.iommu_group), words(theirs.iommu_group)));
    }
    if (theirs.driver != pci.driver) {
      found.push_back(fmt::format("{}: driver {} in sysfs, {} in libvirt", pci.address, words(pci.driver),
                                  words(theirs.driver)));
    }
  }
  return found;
}

}  // namespace virtrain::vmctl
