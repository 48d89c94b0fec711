#pragma once

#include "vmctl/api/evidence.h"

namespace virtrain::vmctl {

/// Addresses of this network namespace.
HostAddresses read_addresses();

}  // namespace virtrain::vmctl
