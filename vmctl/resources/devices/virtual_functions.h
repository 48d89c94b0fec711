#pragma once

#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// Effects by which physical functions get all virtual functions that are granted; none where they are there.
/// Error(busy) where one has some but not these: their number cannot be changed while they are there.
std::vector<Effect> plan_virtual_functions(const std::vector<DeviceGrant>& grants);

}  // namespace virtrain::vmctl
