#pragma once

#include <boost/describe/class.hpp>

#include <string>
#include <vector>

#include "common/enum_text.h"

namespace virtrain::vmctl {

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

}  // namespace virtrain::vmctl
