#pragma once

#include <string>

#include "common/error.h"
#include "vmctl/api/device.h"
#include "vmctl/api/pci.h"

namespace virtrain::vmctl {

/// Why a function that is lent in that form cannot be cleared so; empty: it can. Pure.
std::string cannot_be_cleared(BetweenTenants how, GrantKind kind, const PciFunction& function);

/// Overwrites all namespaces of a disk that nobody uses, through the host's driver. A kill leaves the rest as
/// it was, and the next VM's turn begins anew, so the journal knows nothing of it. Throws Error(busy) naming
/// who uses the disk, Error(host_unable) where the host's driver does not have it, Error(io),
/// Error(interrupted) once `cancelled` says so.
void erase_disk(const std::string& address, const Cancelled& cancelled = {});

/// Resets a function that no VM has. Throws Error.
void reset_function(const std::string& address);

}  // namespace virtrain::vmctl
