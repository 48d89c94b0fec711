#pragma once

#include <vector>

#include "vmctl/api/device_grant.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// What has to be done for a grant, in order, given what is now. Throws Error(not_found) where the device
/// does not exist, Error(busy) where it is in use or carries a vGPU already.
std::vector<Effect> effects_of(const DeviceGrant& grant);

}  // namespace virtrain::vmctl
