#include "vmctl/api/placed_device.h"

#include <algorithm>

namespace virtrain::vmctl {

bool joined_by_nvlink(const PlacedDevice& a, const PlacedDevice& b) {
  return std::ranges::find(a.nvlink_peers, b.grant.address) != a.nvlink_peers.end();
}

PlacedDevice placed(DeviceGrant grant, const HostDevice& device) {
  const auto& pci = device.function;
  PlacedDevice out;
  out.grant = std::move(grant);
  out.device_class = device.device_class;
  out.name = device.name;
  if (out.grant.address == pci.address) {
    out.vendor = pci.vendor;
    out.device = pci.device;
  }
  out.is_display = pci.is_display();
  out.has_no_class = pci.class_code.starts_with("0x00");
  out.is_ethernet = !device.ports.empty() && std::ranges::all_of(device.ports, [](const NetworkPort& port) {
    return port.link_layer == "Ethernet";
  });
  out.numa_node = pci.numa_node;
  out.root_complex = pci.root_complex;
  out.bridges = pci.bridges;
  out.link = pci.link_possible;
  out.bars = pci.bars;
  out.nvlink_peers = device.nvlink_peers;
  out.has_acs_above = device.has_acs_above;
  return out;
}

}  // namespace virtrain::vmctl
