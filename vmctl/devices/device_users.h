#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vmctl/devices/host_device.h"

namespace virtrain::vmctl {

/// Block devices of an NVMe controller's namespaces ("nvme0n1"), from its function's folder in sysfs. Others
/// have none.
std::vector<std::string> nvme_namespaces(const std::filesystem::path& function_folder);

/// Fills in who uses the devices: open files of every process (those of others are visible to root only),
/// mounts, swap space and routes.
void find_users(const std::filesystem::path& root, std::vector<HostDevice>& devices);

}  // namespace virtrain::vmctl
