#pragma once

#include <boost/describe/class.hpp>

#include <string>
#include <vector>

#include "vmctl/api/device.h"
#include "vmctl/api/device_grant.h"

namespace virtrain::vmctl {

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
