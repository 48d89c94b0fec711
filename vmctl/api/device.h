#pragma once

#include <boost/describe/class.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "vmctl/api/pci.h"

namespace virtrain::vmctl {

using virtrain::to_string;

enum class DeviceClass {
  gpu,
  rdma_nic,
  nvswitch,
  other,  ///< only lent where a scenario names it by its address
};
VIRTRAIN_DESCRIBE_ENUM(DeviceClass, gpu, rdma_nic, nvswitch, other)

/// How a tenant's VM can get the device, or a part of it.
enum class Mechanism {
  none,         ///< not at all; `mechanism_reason` says why
  passthrough,  ///< the whole function through vfio-pci, after its present driver let go
  mdev,         ///< vGPUs as mediated devices of this parent
  vendor_vfio,  ///< this virtual function becomes a vGPU and keeps its vendor's driver
  undecided,    ///< SR-IOV is off: mdev and vendor-specific VFIO look the same before it is on
};
VIRTRAIN_DESCRIBE_ENUM(Mechanism, none, passthrough, mdev, vendor_vfio, undecided)

/// A vGPU type that a parent or virtual function offers now.
struct VgpuType {
  std::string id;    ///< "nvidia-474", or the number of a vendor-specific VFIO type
  std::string name;  ///< "NVIDIA A100-20C"
  std::optional<int> available_instances;
  std::optional<int> most_instances;  ///< of a whole card, where the driver says it
};
BOOST_DESCRIBE_STRUCT(VgpuType, (), (id, name, available_instances, most_instances))

/// A port of a network adapter.
struct NetworkPort {
  std::string name;        ///< "mlx5_0/1"
  std::string interface;   ///< "ens1f0np0"; empty: none
  std::string state;       ///< "ACTIVE", "DOWN", …
  std::string rate;        ///< "100 Gb/sec (4X EDR)"
  std::string link_layer;  ///< "InfiniBand" or "Ethernet"
  std::optional<int> mtu_bytes;
};
BOOST_DESCRIBE_STRUCT(NetworkPort, (), (name, interface, state, rate, link_layer, mtu_bytes))

/// Who uses the device now, so that it must not be taken away.
struct DeviceUser {
  int pid = 0;          ///< 0: the kernel itself, for a mount, swap space or a route
  std::string process;  ///< its name, or "mounted on /mnt", "swap", "route"
  std::string path;     ///< "/dev/nvidia0", "/dev/nvme0n1", "eth0"
};
BOOST_DESCRIBE_STRUCT(DeviceUser, (), (pid, process, path))

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
  /// A bridge above it sends peer-to-peer traffic to the root complex (ACS); false where that is not ours to
  /// read.
  bool has_acs_above = false;
  std::vector<NetworkPort> ports;
  /// Network interfaces, "ens1f0". Of a function with a driver none where they are in another namespace.
  std::vector<std::string> interfaces;
  std::vector<DeviceUser> users;
};
BOOST_DESCRIBE_STRUCT(HostDevice, (),
                      (function, device_class, name, uuid, minor, mechanism, mechanism_reason, vgpu_types,
                       vgpus, mig_instances, nvlink_peers, has_acs_above, ports, interfaces, users))

/// Whether its driver's network interface is not this namespace's, so that somebody else has it.
bool is_in_another_namespace(const HostDevice& device);

/// "dd (pid 77) has /dev/nvme0n1 open", "/dev/nvme0n1 is mounted on /mnt".
std::string in_words(const DeviceUser& user);

/// Reasons for which a GPU slows down that make its figures worthless; being idle, and clocks that somebody
/// set, are none. NVML's names, in small letters.
inline constexpr std::array harmful_slowdowns{"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
                                              "sw_thermal_slowdown"};

/// One GPU of the host, as `nvidia-smi -q -x` reports it. A value that it does not give ("N/A", an older or
/// newer version) is absent, never false or zero.
struct GpuReport {
  std::optional<bool> persistence;
  std::optional<bool> mig, mig_pending;  ///< enabled now, and after the next reset
  std::optional<bool> ecc, ecc_pending;
  std::optional<std::uint64_t> uncorrected_ecc_errors;  ///< since the driver was loaded
  std::optional<bool> repair_pending;                   ///< rows to be remapped or pages to be retired
  std::optional<bool> repair_failed;
  std::optional<bool> mixed_vgpu_sizes;  ///< vGPU host: framebuffers of several sizes on the card
  std::string virtualization;            ///< "None", "Host VGPU", "Pass-Through", "VGPU"; empty: unknown
  std::string licence;                   ///< "Licensed (Expiry: …)" in a VM with a vGPU; empty: it has none
  std::string fabric_state, fabric_status;  ///< "Completed", "Success"; empty: it has no fabric
  std::vector<std::string> slowdowns;       ///< active reasons, thermal and power brake among them
  std::optional<double> power_limit_w, default_power_limit_w;
};
BOOST_DESCRIBE_STRUCT(GpuReport, (),
                      (persistence, mig, mig_pending, ecc, ecc_pending, uncorrected_ecc_errors,
                       repair_pending, repair_failed, mixed_vgpu_sizes, virtualization, licence, fabric_state,
                       fabric_status, slowdowns, power_limit_w, default_power_limit_w))

/// nvidia-smi's spelling of a PCI address, "00000000:17:00.0", domains of eight digits and capitals, as the
/// kernel's: "0000:17:00.0".
std::string kernel_address(const std::string& nvidia_address);

using virtrain::to_string;

/// In which form a VM gets a device.
enum class GrantKind {
  passthrough,       ///< the whole function, bound to vfio-pci with everything else in its IOMMU group
  virtual_function,  ///< a virtual function of a physical one, bound to vfio-pci; made where there is none
  mdev,              ///< a mediated device, made of a type its parent offers
  vendor_vfio,       ///< a vGPU on a virtual function that keeps its vendor's driver
};
VIRTRAIN_DESCRIBE_ENUM(GrantKind, passthrough, virtual_function, mdev, vendor_vfio)

/// How virtrain clears a device before each VM that gets it, so that a tenant finds nothing that another
/// left.
enum class BetweenTenants {
  none,
  reset,  ///< the function is reset
  erase,  ///< all namespaces of an NVMe disk are overwritten with zeros
};
VIRTRAIN_DESCRIBE_ENUM(BetweenTenants, none, reset, erase)

/// A device, or a part of one, for one VM.
struct DeviceGrant {
  GrantKind kind = GrantKind::passthrough;
  /// "0000:17:00.0": the function that the VM gets; of an mdev its parent, which may be no PCI function
  /// ("mtty").
  std::string address;
  std::string physical_function = {};  ///< virtual_function, vendor_vfio: whose it is
  std::string vgpu_type = {};          ///< mdev, vendor_vfio: the type's id, "nvidia-474" or "902"
  std::string uuid = {};  ///< mdev: chosen before it is made, so that it is recognised afterwards
  BetweenTenants between_tenants = BetweenTenants::none;
  bool operator==(const DeviceGrant&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceGrant, (), (kind, address, physical_function, vgpu_type, uuid, between_tenants))

/// The card of which it is a part, or that it is itself.
inline const std::string& card_of(const DeviceGrant& grant) {
  return grant.physical_function.empty() ? grant.address : grant.physical_function;
}

/// A vGPU: made for one VM and removed after it, for that is when its manager clears its memory. One that
/// went from tenant to tenant would keep it.
bool is_made_for_each_vm(const DeviceGrant& grant);

/// Whether what is lent, vGPUs left out, has to go back before `wanted` can be: the number of a card's
/// virtual functions cannot change while there are any. What is erased before each VM goes back to the host's
/// driver for that. Pure.
bool must_make_way(const std::vector<DeviceGrant>& lent, const std::vector<DeviceGrant>& wanted);

/// Whether GPUs are told that they reach each other over PCIe (the NVIDIA driver cannot see that in a VM).
enum class Clique {
  off,
  auto_,  ///< those below one PCIe switch
  all,    ///< all of a VM
};
VIRTRAIN_DESCRIBE_ENUM(Clique, off, auto_, all)

/// Through which of the kernel's interfaces QEMU maps a guest's memory for a device.
VIRTRAIN_ENUM_CLASS(Vfio, container, iommufd)

/// A grant together with where the device sits on its host, which is what the guest is to see too.
struct PlacedDevice {
  DeviceGrant grant;
  Vfio vfio = Vfio::container;
  DeviceClass device_class = DeviceClass::gpu;
  std::string name;                  ///< "NVIDIA A100-PCIE-40GB"
  std::string vendor;                ///< "0x10de"; of a virtual function that is yet to be made: empty
  std::string device;                ///< "0x20f1"; likewise
  bool is_display = false;           ///< class 0x03, as the clique hint demands
  bool has_no_class = false;         ///< class 0x00: only its own programs know what it is
  bool is_ethernet = false;          ///< an adapter whose ports are Ethernet: libvirt sets a VF's MAC
  std::string vgpu_name;             ///< of a vGPU's type, "NVIDIA A100-20C"
  std::string mac;                   ///< of a virtual function that is_ethernet
  int numa_node = -1;                ///< of the host; -1: unknown
  std::string root_complex;          ///< "pci0000:16"; empty: unknown
  std::vector<std::string> bridges;  ///< from the root port down to the device; empty: unknown
  PciLink link;                      ///< what the device can do
  std::vector<Bar> bars;
  std::vector<std::string> nvlink_peers;  ///< addresses of GPUs on the other end of an NVLink
  bool has_acs_above = false;             ///< as of HostDevice
};
BOOST_DESCRIBE_STRUCT(PlacedDevice, (),
                      (grant, vfio, device_class, name, vendor, device, is_display, has_no_class, is_ethernet,
                       vgpu_name, mac, numa_node, root_complex, bridges, link, bars, nvlink_peers,
                       has_acs_above))

/// Whether an NVLink joins the two.
bool joined_by_nvlink(const PlacedDevice& a, const PlacedDevice& b);

/// `grant` is filled in by the caller; of a virtual function, `function` may be the physical one.
PlacedDevice placed(DeviceGrant grant, const HostDevice& device);

}  // namespace virtrain::vmctl
