#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "vmctl/api/device.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

/// Something that can be given to one node: a device, or a part of one.
struct DeviceSlot {
  vmctl::PlacedDevice device;
  std::string id;    ///< tells the parts of one device apart
  std::string card;  ///< address of the physical card
  std::optional<int> iommu_group;
  /// Ids of other cards in its IOMMU group: a VM gets all of them or none.
  std::vector<std::string> companions;
  int mig_slices = 0;    ///< that a MIG-backed vGPU takes of its card's
  int card_slices = 0;   ///< that the card has
  int mig_gib = 0;       ///< of the card's memory that a MIG-backed vGPU takes
  int card_gib = 0;      ///< of these the card has as many left; 0: unknown
  bool is_ready = true;  ///< of an adapter: a port is up

  /// Time-sliced vGPUs of one card are all of one size; those backed by MIG are not.
  bool is_time_sliced() const;
};

/// The part of the selection that a host can give, and why the rest cannot be had, a sentence a device.
struct Offer {
  std::vector<DeviceSlot> slots;
  std::vector<std::string> reasons;
  std::size_t in_use = 0;  ///< of the rest, those that could be had once their users are gone
};

/// Devices that `devices` selects, for nodes whose vGPUs are of `vgpu_type`: GPUs, or whatever is named by
/// address. `for_vms`: some arm gives them to VMs, which takes an IOMMU.
Offer offered_devices(const Devices& devices, const std::string& vgpu_type, const vmctl::Inventory& inventory,
                      bool for_vms);
/// RDMA adapters, or whatever is named by address, of which VMs get as they get `devices`.
Offer offered_nics(const Devices& devices, const vmctl::Inventory& inventory, bool for_vms);

/// Virtual functions of the NIC with that interface, one for each node's network, with the interfaces that
/// slices need (`for_slices`).
Offer offered_network_functions(const std::string& nic, const vmctl::Inventory& inventory, bool for_vms,
                                bool for_slices);

/// Compute slices of the MIG instance that a type of this name is cut out of: 2 of "A100-2-10C"; 0 of one
/// that shares a card's time ("A100-10C").
int mig_slices_of(const std::string& vgpu_type_name);
inline bool is_mig_backed(const std::string& vgpu_type_name) {
  return mig_slices_of(vgpu_type_name) > 0;
}

}  // namespace virtrain::harness
