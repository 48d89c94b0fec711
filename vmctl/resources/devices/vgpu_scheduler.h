#pragma once

#include <string>

#include "vmctl/api/device_settings.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// That a card shares its time among vGPUs in that way, with the driver's own time slice. Throws
/// Error(host_unable).
Effect vgpu_scheduler_effect(const std::string& card, VgpuScheduler wanted);

}  // namespace virtrain::vmctl
