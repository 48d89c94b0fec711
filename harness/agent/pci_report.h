#pragma once

#include <string>
#include <vector>

#include "vmctl/api/pci.h"

namespace virtrain::harness {

/// A node's PCI functions as its agent reports them, JSON: what decides where a guest's devices are. The rest
/// of a PciFunction is not in it.
std::string pci_report(const std::vector<vmctl::PciFunction>& functions);

/// The same, read by the coordinator from a guest that is not trusted. Throws Error(protocol).
std::vector<vmctl::PciFunction> parse_pci_report(const std::string& text);

}  // namespace virtrain::harness
