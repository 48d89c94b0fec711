#pragma once

#include <pugixml.hpp>

#include <vector>

#include "vmctl/hypervisor/domain/guest_layout.h"

namespace virtrain::vmctl {

/// Adds the guest's PCI controllers and the devices plugged into them to a domain's <devices>.
void add_granted_devices(pugi::xml_node devices, const std::vector<PlacedDevice>& granted,
                         const GuestLayout& layout);

/// One controller, or one device: what add_granted_devices() adds of it.
void add_controller(pugi::xml_node parent, const GuestController& controller);
void add_granted_device(pugi::xml_node parent, const std::vector<PlacedDevice>& granted, std::size_t index,
                        const GuestPlug& plug);

/// For each device the number of its clique, -1: none. Only NVIDIA's display devices can have one, and one
/// alone has no use for it.
std::vector<int> cliques(const std::vector<PlacedDevice>& granted, Clique clique);

/// Tells QEMU of the cliques, by the devices' aliases; libvirt has no word for them. Adds nothing where no
/// device has one.
void add_cliques(pugi::xml_node domain, const std::vector<PlacedDevice>& granted, Clique clique);

}  // namespace virtrain::vmctl
