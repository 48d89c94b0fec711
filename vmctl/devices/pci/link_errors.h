#pragma once

#include <optional>

#include "vmctl/api/evidence.h"
#include "vmctl/api/pci/pci_function.h"

namespace virtrain::vmctl {

/// Reads the kernel's error counters, also while a VM has the device; nothing where the kernel does not
/// count.
std::optional<LinkErrors> read_link_errors(const PciFunction& function);

}  // namespace virtrain::vmctl
