#pragma once

#include "vmctl/api/device_grant.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// That a mediated device of the grant's type is made. Error(not_found) where the parent offers no such type,
/// Error(busy) where none of it is left.
Effect mdev_effect(const DeviceGrant& grant);

}  // namespace virtrain::vmctl
