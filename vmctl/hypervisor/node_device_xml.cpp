#include "vmctl/hypervisor/node_device_xml.h"

#include <fmt/format.h>
#include <pugixml.hpp>

namespace virtrain::vmctl {

// <device><driver><name>nvidia</name></driver><capability type='pci'><domain>0</domain><bus>23</bus>… as
// libvirt documents it under "Node devices".
std::optional<NodeDevice> read_node_device(const std::string& xml) {
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) { return std::nullopt; }
  const auto device = document.child("device");
  const auto pci = device.find_child_by_attribute("capability", "type", "pci");
  if (!pci) { return std::nullopt; }
  const auto number = [&](const char* name) { return pci.child(name).text().as_uint(); };
  NodeDevice found;
  found.pci_address = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", number("domain"), number("bus"),
                                  number("slot"), number("function"));
  found.driver = device.child("driver").child_value("name");
  if (const auto group = pci.child("iommuGroup")) { found.iommu_group = group.attribute("number").as_int(); }
  return found;
}

}  // namespace virtrain::vmctl
