#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "vmctl/devices/host_device.h"
#include "vmctl/devices/pci/pci_config.h"

namespace virtrain::vmctl {

/// ACS of the bridges above devices, by the bridge's address. A bridge without it is in its devices' IOMMU
/// group, and one whose configuration space is not ours to read (root's) is left out.
std::map<std::string, AcsControl> acs_above(const std::filesystem::path& root,
                                            const std::vector<const HostDevice*>& devices);

/// Bridges that let what is below them talk past the IOMMU, "0000:16:02.0 without RR UF" each.
std::vector<std::string> acs_gaps(const std::map<std::string, AcsControl>& bridges);

/// Whether VFIO lends devices though interrupts are not remapped.
bool allows_unsafe_interrupts(const std::filesystem::path& root);

}  // namespace virtrain::vmctl
