#pragma once

#include <string>

#include "vmctl/api/device.h"
#include "vmctl/hypervisor/domain/device_xml.h"

namespace virtrain::vmctl {

inline constexpr const char* nccl_bridge_class = "0x060400";

/// The PCI class that NCCL looks for; null: NCCL does not use such a device.
inline const char* nccl_class(DeviceClass device_class) {
  switch (device_class) {
    case DeviceClass::gpu:
      return "0x030200";
    case DeviceClass::rdma_nic:
      return "0x020700";
    case DeviceClass::nvswitch:
    case DeviceClass::other:
      break;
  }
  return nullptr;
}

/// Appends <pci busid class link_speed link_width/> as NCCL's topology files have it (NCCL,
/// src/graph/xml.cc).
inline pugi::xml_node add_nccl_pci(pugi::xml_node parent, const std::string& address, const char* class_code,
                                   const PciLink& link) {
  auto node = add(parent, "pci", {{"busid", address}, {"class", class_code}});
  if (link.width == 0) { return node; }
  with(node, "link_speed", link.speed);
  return with(node, "link_width", std::to_string(link.width));
}

}  // namespace virtrain::vmctl
