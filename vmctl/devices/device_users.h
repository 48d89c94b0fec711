#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vmctl/devices/host_device.h"

namespace virtrain::vmctl {

/// Nodes under /dev through which VFIO gives a function to a process: its IOMMU group's and, since Linux 6.6,
/// its own. `folder` is the function's in sysfs.
std::vector<std::string> vfio_nodes(const std::filesystem::path& folder);

/// Fills in who uses the devices: open files of every process (those of others are visible to root only),
/// mounts, swap space, what is built on a disk or a port, and routes.
void find_users(const std::filesystem::path& root, std::vector<HostDevice>& devices);

}  // namespace virtrain::vmctl
