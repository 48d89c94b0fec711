#pragma once

#include <optional>
#include <string>

namespace virtrain::vmctl {

/// A PCI function as the hypervisor's daemon sees it.
struct NodeDevice {
  std::string pci_address;
  std::string driver;  ///< empty: none
  std::optional<int> iommu_group;
};
/// From the XML of a node device; nothing for what is no PCI function.
std::optional<NodeDevice> read_node_device(const std::string& xml);

}  // namespace virtrain::vmctl
