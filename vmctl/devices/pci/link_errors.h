#pragma once

#include <optional>

#include "vmctl/api/evidence.h"
#include "vmctl/api/pci/pci_function.h"

namespace virtrain::vmctl {

/// Nothing where the kernel does not count them. Works while a VM has the device.
std::optional<LinkErrors> read_link_errors(const PciFunction& function);

}  // namespace virtrain::vmctl
