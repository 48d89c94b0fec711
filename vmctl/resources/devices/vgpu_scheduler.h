#pragma once

#include <boost/describe/class.hpp>

#include <string>

#include "vmctl/api/device_settings.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// That a card shares its time among vGPUs in that way, with the driver's own time slice. Throws
/// Error(host_unable).
Effect vgpu_scheduler_effect(const std::string& card, VgpuScheduler wanted);

/// A card's scheduler of vGPUs as NVML tells and takes it. Drivers name the modes by other numbers from
/// version to version, so what was read is put back unread.
struct VgpuScheduling {
  unsigned policy = 0;     ///< NVML_VGPU_SCHEDULER_POLICY_*
  unsigned mode = 0;       ///< of adaptive round robin; 0: the driver's default
  unsigned parameter = 0;  ///< nanoseconds of a time slice, or an averaging factor; 0: the driver's default
  bool operator==(const VgpuScheduling&) const = default;
};
BOOST_DESCRIBE_STRUCT(VgpuScheduling, (), (policy, mode, parameter))

/// Throws Error(host_unable) with NVML's words where the library is not there, or the card no vGPU host.
VgpuScheduling read_vgpu_scheduling(const std::string& address);
/// Until the driver is loaded again; the card may carry no vGPU. Throws Error(host_unable).
void set_vgpu_scheduling(const std::string& address, const VgpuScheduling& wanted);

}  // namespace virtrain::vmctl
