#pragma once

#include <cstdint>
#include <optional>

#include "vmctl/devices/pci/pci_function.h"

namespace virtrain::vmctl {

/// What the kernel has counted for a device since its start (sysfs: aer_dev_correctable and its like).
struct LinkErrors {
  std::uint64_t correctable = 0;
  std::uint64_t nonfatal = 0;
  std::uint64_t fatal = 0;
  bool operator==(const LinkErrors&) const = default;
};

/// Nothing where the kernel does not count them. Works while a VM has the device.
std::optional<LinkErrors> read_link_errors(const PciFunction& function);

}  // namespace virtrain::vmctl
