#pragma once

#include <boost/describe/class.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "vmctl/api/device.h"
#include "vmctl/journal/leases.h"
#include "vmctl/resources/devices/function_seat.h"

namespace virtrain::vmctl {

/// Identity of a virtual function in an InfiniBand fabric. The physical function's driver keeps it, and the
/// driver of the virtual function reads it once: it must be there before a guest's driver looks.
struct VfIdentity {
  std::string node_guid;  ///< "02:4c:5e:…", eight bytes; zeros: none
  std::string port_guid;
  std::string policy;  ///< of its port: "Up", "Down", or "Follow", as the physical port is; empty: not known
  bool operator==(const VfIdentity&) const = default;
};
BOOST_DESCRIBE_STRUCT(VfIdentity, (), (node_guid, port_guid, policy))

/// Parses a line "vf 1 … NODE_GUID 02:…, PORT_GUID 02:…, link-state auto, …" of `ip link show`.
std::optional<VfIdentity> parse_ip_link(const std::string& text, int index);

/// GUIDs that no other function has: of the physical one's own GUID and the number of the virtual one, marked
/// as locally administered. The same in every run, so that a subnet manager may know them.
std::string guid_of(const std::string& physical_guid, int index);

/// That a virtual function of an InfiniBand adapter gets GUIDs, and a port that follows the physical one;
/// nothing for every other device, and where it has GUIDs already, which are its administrator's.
std::optional<Effect> guids_effect(const DeviceGrant& grant,
                                   const std::filesystem::path& devices = pci_devices);
void set_guids(const Effect& effect, const std::filesystem::path& devices = pci_devices);
/// Words for GUIDs that are still those that were set; empty: none.
std::string guids_left(const Effect& effect, const std::filesystem::path& devices = pci_devices);
/// Puts back what was before, unless somebody has set others since or the function is gone.
void clear_guids(const Effect& effect, const std::filesystem::path& devices = pci_devices);

}  // namespace virtrain::vmctl
