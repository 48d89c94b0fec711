#pragma once

#include <string>
#include <vector>

#include "vmctl/doctor/findings/device_host.h"

namespace virtrain::vmctl {

/// Devices (of those that matter) that are still set up for a VM while no process has them and no live run
/// holds them, a sentence each. Read from sysfs and /proc, whatever the journal says. What the host's
/// administrator keeps so on purpose (driverctl, mdevctl) is none.
std::vector<std::string> device_leaks(const DeviceHost& host);

}  // namespace virtrain::vmctl
