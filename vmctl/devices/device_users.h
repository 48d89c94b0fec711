#pragma once

#include <filesystem>
#include <vector>

#include "vmctl/devices/host_device.h"

namespace virtrain::vmctl {

/// Fills in who uses the devices: open files of every process (those of others are visible to root only),
/// mounts, swap space, what is built on a disk or a port, and routes.
void find_users(const std::filesystem::path& root, std::vector<HostDevice>& devices);

}  // namespace virtrain::vmctl
