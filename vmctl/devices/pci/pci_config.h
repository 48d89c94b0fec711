#pragma once

#include <optional>
#include <string>

#include "vmctl/api/pci/pci_function.h"

namespace virtrain::vmctl {

/// A function's configuration space as sysfs gives it: 4,096 bytes for root, 64 for others; empty if it
/// cannot be read at all.
std::string read_pci_config(const PciFunction& function);

/// Access Control Services of a bridge (PCI Express base specification, 7.7.8), the bits that send what one
/// device below it writes to another through the IOMMU.
struct AcsControl {
  bool request_redirect = false;     ///< RR
  bool completion_redirect = false;  ///< CR
  bool upstream_forwarding = false;  ///< UF
  bool direct_translated = false;    ///< DT: what a device translated by ATS goes straight nevertheless
  bool can_direct_translated = false;
};
/// Reads the ACS capability from a configuration space; nothing where it has none, or ends before it.
std::optional<AcsControl> acs_control(const std::string& config);

/// Whether Address Translation Services (7.8.8 there) are enabled; nothing where the device has none.
std::optional<bool> ats_enabled(const std::string& config);

/// Whether a device may write with relaxed ordering (device control, 7.5.3.4 there); nothing where that is
/// not ours to read.
std::optional<bool> relaxed_ordering(const std::string& config);

/// The highest speed that somebody lets a link run at (link control 2, 7.5.3.19 there), in GT/s; nothing
/// where that is not ours to read.
std::optional<double> target_link_speed(const std::string& config);

}  // namespace virtrain::vmctl
