#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "vmctl/api/device.h"
#include "vmctl/api/pci.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// The devices of a host, without their users.
struct HostDevices {
  std::vector<HostDevice>
      devices;  ///< GPUs (with their virtual functions), RDMA adapters, NVSwitches; by address
  /// Every other endpoint, by address, and parents of mediated devices that are no PCI functions, by name.
  std::vector<HostDevice> others;
};
/// From "/" or a recorded tree.
HostDevices read_host_devices(const std::filesystem::path& root);

/// Just these functions, whatever they are, without asking nvidia-smi; unknown addresses are left out.
std::vector<HostDevice> read_devices(const std::filesystem::path& root,
                                     const std::vector<std::string>& addresses);

/// Version of the NVIDIA driver that is loaded: the first word of digits and dots in "NVRM version: NVIDIA
/// UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 …".
std::optional<std::string> loaded_nvidia_driver(const std::filesystem::path& root);

/// Which mechanism a function offers, decided from sysfs alone, and why.
std::pair<Mechanism, std::string> mechanism_of(const PciFunction& function);

/// GPUs joined by NVLink, from the text of `nvidia-smi topo -m`; `gpus` are the addresses in PCI order, which
/// is nvidia-smi's. Text of another form gives nothing.
std::map<std::string, std::vector<std::string>> nvlink_peers(const std::string& topology,
                                                             const std::vector<std::string>& gpus);

}  // namespace virtrain::vmctl
