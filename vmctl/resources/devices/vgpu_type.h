#pragma once

#include "vmctl/api/device_grant.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// That a virtual function that keeps its vendor's driver becomes a vGPU. Error(busy) where it carries one
/// already, Error(host_unable) where it does not offer the type.
Effect vgpu_type_effect(const DeviceGrant& grant);

}  // namespace virtrain::vmctl
