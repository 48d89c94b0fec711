#pragma once

#include <string>
#include <vector>

#include "vmctl/devices/host_device.h"
#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

/// Where sysfs and the hypervisor's daemon do not say the same of a device: a sentence each. A daemon that
/// has missed an event would lend a device by what it remembers.
std::vector<std::string> disagreements(const std::vector<HostDevice>& devices,
                                       const std::vector<NodeDevice>& node_devices);

}  // namespace virtrain::vmctl
