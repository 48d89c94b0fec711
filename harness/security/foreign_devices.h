#pragma once

#include <string>
#include <vector>

#include "harness/security/canary_tool.h"

// Devices that are nobody's, another tenant's or the host's, and that a node sees.

namespace virtrain::harness {

inline constexpr const char* foreign_devices_search = "foreign_devices";

/// Functions that every VM of virtrain's has: the chipset, ports, bridges and virtio functions of QEMU's q35,
/// as beginnings of their models.
const std::vector<std::string>& functions_of_machine();

/// A function in a VM is the VM's to use, whatever it may open of it; in a slice sysfs shows all of the
/// host's, and what counts is the memory regions that it may write to.
LeakEvidence foreign_devices(const canary::Functions& seen, bool has_own_kernel);

}  // namespace virtrain::harness
