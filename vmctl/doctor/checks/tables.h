#pragma once

#include <span>

#include "vmctl/api/host_mode.h"
#include "vmctl/doctor/findings/check.h"
#include "vmctl/doctor/findings/device_host.h"

// The tables of checks by topic, a file each.
namespace virtrain::vmctl {

/// This host, in one mode.
struct HostInMode {
  const Inventory& inventory;
  HostMode mode;
};
/// Checks that every scenario depends on.
std::span<const Check<HostInMode>> host_checks();

using DeviceCheck = Check<DeviceHost>;

std::span<const DeviceCheck> iommu_checks();
std::span<const DeviceCheck> version_checks();
std::span<const DeviceCheck> driver_checks();  ///< drivers, users, resets, leaks
std::span<const DeviceCheck> link_checks();    ///< PCIe links, NUMA nodes, RDMA
std::span<const DeviceCheck> memory_checks();
std::span<const DeviceCheck> vgpu_checks();    ///< vGPUs and MIG
std::span<const DeviceCheck> health_checks();  ///< of GPUs and their fabric
std::span<const DeviceCheck> machine_checks();

/// All of devices, in the order they are shown.
std::span<const DeviceCheck> device_checks();

}  // namespace virtrain::vmctl
