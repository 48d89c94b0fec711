#pragma once

#include <filesystem>
#include <vector>

#include "common/model/check.h"
#include "vmctl/api/device_demand.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/process/calling_user.h"

namespace virtrain::vmctl {

/// All checks below, in their order.
std::vector<CheckDescription> known_checks();
/// Checks what every scenario needs of this host in that mode; starts nothing that stays.
std::vector<Finding> examine_host(const Inventory& host, HostMode mode);
/// Checks what scenarios with GPUs or RDMA adapters need, of all GPUs: of this host, or of the recorded one
/// below `root`.
std::vector<Finding> examine_devices(const Inventory& host, const std::filesystem::path& root = "/");
/// Checks what a plan needs, of the devices that it wants: at one time each of these. The first that a check
/// fails for is what it says.
std::vector<Finding> examine_devices(const Inventory& host, const std::vector<DeviceDemand>& demands,
                                     const std::filesystem::path& root = "/");

}  // namespace virtrain::vmctl
