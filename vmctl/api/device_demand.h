#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vmctl/api/device_settings.h"
#include "vmctl/api/node.h"
#include "vmctl/api/placed_device.h"

namespace virtrain::vmctl {

/// What one VM of a plan is to get.
struct VmDemand {
  std::vector<PlacedDevice> devices;
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;  ///< of its memory, where it is of one node
};

/// What a plan wants of a host at one time.
struct DeviceDemand {
  std::vector<VmDemand> vms;
  Clique clique = Clique::off;
  bool several_tenants = false;  ///< VMs that must be kept apart
  bool hugepages = false;        ///< VMs of 1 GiB pages
  bool firmware = false;         ///< VMs that boot by UEFI
  MemoryEncryption memory_encryption = MemoryEncryption::none;
  std::optional<VgpuScheduler> vgpu_scheduler;  ///< that is set on the cards

  std::vector<PlacedDevice> devices() const;  ///< of all VMs
  bool wants(GrantKind kind) const;
};

}  // namespace virtrain::vmctl
