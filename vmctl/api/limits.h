#pragma once

#include <string>
#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/api/inventory.h"

namespace virtrain::vmctl {

/// Why the GPUs of one VM cannot reach each other over the NVSwitches of their board.
struct FabricLack {
  std::string words;        ///< what is wrong and what to do; empty: nothing is
  bool is_certain = false;  ///< false: this host does not say how its Fabric Manager is set
};

/// Several GPUs of a board whose NVSwitches the host keeps: their guest's CUDA fails with 802 unless an
/// active partition of the Fabric Manager has just these GPUs. A VM with all switches needs all GPUs.
FabricLack fabric_lack(const Inventory& inventory, const std::vector<PlacedDevice>& devices);

/// Whether GPUs of the host are joined by NVLink switches: those of boards before NVLink 5 are PCI functions,
/// the others show by how many GPUs each reaches.
bool has_nvlink_switches(const std::vector<HostDevice>& devices);

/// Address sets of the active partitions.
std::vector<std::vector<std::string>> active_partitions(const Inventory& inventory);

/// Advice where somebody has GPUs that are not NVIDIA's.
inline constexpr const char* works_with_other_gpus =
    "GPUs of other vendors work in jobs of your own on machines that exist already (attach, "
    "workload.command) and "
    "in logs that you import; scenarios without devices run here as well";

/// "QEMU 7.2.22", "9.0.0", "6.1.0-35-amd64": whether the first two numbers are at least these; true where
/// there are none.
bool is_since(const std::string& version, int major, int minor);

}  // namespace virtrain::vmctl
