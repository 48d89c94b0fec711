#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/devices/pci_function.h"

namespace virtrain::vmctl {

enum class DeviceClass { gpu, rdma_nic, nvswitch };
const char* to_string(DeviceClass device_class);

/// How a tenant's VM can get the device, or a part of it.
enum class Mechanism {
  none,         ///< not at all; `mechanism_reason` says why
  passthrough,  ///< the whole function through vfio-pci, after its present driver let go
  mdev,         ///< vGPUs as mediated devices of this parent
  vendor_vfio,  ///< this virtual function becomes a vGPU and keeps its vendor's driver
  undecided,    ///< SR-IOV is off: mdev and vendor-specific VFIO look the same before it is on
};
const char* to_string(Mechanism mechanism);

/// A vGPU type that a parent or virtual function offers now.
struct VgpuType {
  std::string id;    ///< "nvidia-474", or the number of a vendor-specific VFIO type
  std::string name;  ///< "NVIDIA A100-20C"
  std::optional<int> available_instances;
};

/// A port of a network adapter.
struct NetworkPort {
  std::string name;        ///< "mlx5_0/1"
  std::string interface;   ///< "ens1f0np0"; empty: none
  std::string state;       ///< "ACTIVE", "DOWN", …
  std::string rate;        ///< "100 Gb/sec (4X EDR)"
  std::string link_layer;  ///< "InfiniBand" or "Ethernet"
  std::optional<int> mtu_bytes;
};

/// A process that has the device open.
struct DeviceUser {
  int pid = 0;
  std::string process;
  std::string path;  ///< "/dev/nvidia0"
};

/// A GPU, an RDMA adapter or an NVSwitch of this host.
struct HostDevice {
  PciFunction function;
  DeviceClass device_class = DeviceClass::gpu;
  std::string name;          ///< as the driver says it, else from pci.ids, else the ids
  std::string uuid;          ///< of a GPU whose driver is loaded
  std::optional<int> minor;  ///< of /dev/nvidia<minor>
  Mechanism mechanism = Mechanism::none;
  std::string mechanism_reason;
  std::vector<VgpuType> vgpu_types;
  std::vector<std::string> mig_instances;  ///< GPU instances by name, "gi1"
  std::vector<std::string> nvlink_peers;   ///< addresses of GPUs on the other end of an NVLink
  std::vector<NetworkPort> ports;
  std::vector<DeviceUser> users;
};

/// All GPUs (with their virtual functions), RDMA adapters and NVSwitches, by address; from "/" or a recorded
/// tree. Without their users.
std::vector<HostDevice> read_host_devices(const std::filesystem::path& root);

/// Fills in who has the devices open, from every process's open files; those of others are visible to root
/// only.
void find_users(const std::filesystem::path& root, std::vector<HostDevice>& devices);

/// Which mechanism a function offers, decided from sysfs alone, and why.
std::pair<Mechanism, std::string> mechanism_of(const PciFunction& function);

/// GPUs joined by NVLink, from the text of `nvidia-smi topo -m`; `gpus` are the addresses in PCI order, which
/// is nvidia-smi's. Text of another form gives nothing.
std::map<std::string, std::vector<std::string>> nvlink_peers(const std::string& topology,
                                                             const std::vector<std::string>& gpus);

}  // namespace virtrain::vmctl
