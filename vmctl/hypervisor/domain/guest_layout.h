#pragma once

#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/device.h"

namespace virtrain::vmctl {

/// Where something is plugged in: the index of a PCI controller, and the slot on its bus.
struct GuestPlug {
  int controller = 0;
  int slot = 0;
  bool operator==(const GuestPlug&) const = default;
};

/// A PCI controller of a guest, in libvirt's words.
struct GuestController {
  int index = 0;
  std::string model;              ///< "pcie-expander-bus", "pcie-root-port", …
  std::optional<GuestPlug> plug;  ///< none: an expander bus, which libvirt plugs into the root
  int bus_number = 0;             ///< of the bus it provides, as the guest counts
  std::optional<int> numa_cell;   ///< of an expander bus
  std::string guest_address;      ///< of the controller itself, "0000:40:00.0"; empty: an expander bus
};

/// One device in its guest.
struct GuestSlot {
  GuestPlug plug;
  std::string guest_address;     ///< "0000:41:00.0"
  std::vector<int> controllers;  ///< indexes from the expander bus down to the port it is plugged into
};

struct GuestLayout {
  std::vector<GuestController> controllers;  ///< parents before children; without the root, index 0
  std::vector<GuestSlot> slots;              ///< one for each device, in their order

  const GuestController& controller(int index) const;
};

/// Pure: the guest's PCIe tree, such that devices are as near to each other as on the host: an expander bus
/// for each root complex, on the guest's NUMA cell of its host node, a root port for each of the complex's
/// ports, and a switch wherever devices of this VM share one. `cells` are the host nodes of the guest's NUMA
/// cells. Firmware numbers buses depth first (seen: SeaBIOS 1.16), so each device's address is known
/// beforehand. Throws Error(bad_input) where 256 buses are too few.
GuestLayout guest_layout(const std::vector<PlacedDevice>& devices, const std::vector<int>& cells);

}  // namespace virtrain::vmctl
