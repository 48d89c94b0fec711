#pragma once

#include <pugixml.hpp>

#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
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

/// Appends attribute="value"; chains.
inline pugi::xml_node with(pugi::xml_node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute).set_value(value.c_str());
  return node;
}

/// Appends <name>text</name>.
inline pugi::xml_node add(pugi::xml_node parent, const char* name, const std::string& text = {}) {
  auto node = parent.append_child(name);
  if (!text.empty()) { node.text().set(text.c_str()); }
  return node;
}

/// Appends <name attribute="value" …/>.
inline pugi::xml_node add(pugi::xml_node parent, const char* name,
                          std::initializer_list<std::pair<const char*, std::string>> attributes) {
  auto node = parent.append_child(name);
  for (const auto& [attribute, value] : attributes) { with(node, attribute, value); }
  return node;
}

inline std::string xml_text(const pugi::xml_document& document) {
  std::ostringstream out;
  document.save(out, "  ", pugi::format_default | pugi::format_no_declaration);
  return out.str();
}

}  // namespace virtrain::vmctl
