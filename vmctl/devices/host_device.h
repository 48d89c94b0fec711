#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "vmctl/devices/pci/pci_function.h"

namespace virtrain::vmctl {

using virtrain::to_string;

enum class DeviceClass {
  gpu,
  rdma_nic,
  nvswitch,
  other,  ///< only lent where a scenario names it by its address
};
BOOST_DESCRIBE_ENUM(DeviceClass, gpu, rdma_nic, nvswitch, other)

/// How a tenant's VM can get the device, or a part of it.
enum class Mechanism {
  none,         ///< not at all; `mechanism_reason` says why
  passthrough,  ///< the whole function through vfio-pci, after its present driver let go
  mdev,         ///< vGPUs as mediated devices of this parent
  vendor_vfio,  ///< this virtual function becomes a vGPU and keeps its vendor's driver
  undecided,    ///< SR-IOV is off: mdev and vendor-specific VFIO look the same before it is on
};
BOOST_DESCRIBE_ENUM(Mechanism, none, passthrough, mdev, vendor_vfio, undecided)

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

/// Who uses the device now, so that it must not be taken away.
struct DeviceUser {
  int pid = 0;          ///< 0: the kernel itself, for a mount, swap space or a route
  std::string process;  ///< its name, or "mounted on /mnt", "swap", "route"
  std::string path;     ///< "/dev/nvidia0", "/dev/nvme0n1", "eth0"
};

/// A device of this host: a GPU, an RDMA adapter, an NVSwitch, or another one that can be named by address.
struct HostDevice {
  PciFunction function;
  DeviceClass device_class = DeviceClass::gpu;
  std::string name;          ///< as the driver says it, else from pci.ids, else the ids
  std::string uuid;          ///< of a GPU whose driver is loaded
  std::optional<int> minor;  ///< of /dev/nvidia<minor>
  Mechanism mechanism = Mechanism::none;
  std::string mechanism_reason;
  std::vector<VgpuType> vgpu_types;
  std::vector<std::string> vgpus;          ///< that exist: "type 1153", or UUIDs of mediated devices
  std::vector<std::string> mig_instances;  ///< GPU instances by name, "gi1"
  std::vector<std::string> nvlink_peers;   ///< addresses of GPUs on the other end of an NVLink
  std::vector<NetworkPort> ports;
  std::vector<DeviceUser> users;
};

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
