#include "vmctl/hypervisor/domain/nccl_topology.h"

#include <algorithm>
#include <map>

#include "vmctl/hypervisor/domain/guest_layout.h"
#include "vmctl/hypervisor/domain/nccl_pci.h"
#include "vmctl/hypervisor/domain/xml_nodes.h"

namespace virtrain::vmctl {
namespace {

bool concerns_nccl(const PlacedDevice& device) {
  return nccl_class(device.device_class) != nullptr;
}

}  // namespace

std::string nccl_topology(const DomainSpec& spec) {
  const auto& devices = spec.devices;
  if (std::ranges::none_of(devices,
                           [](const auto& device) { return device.device_class == DeviceClass::gpu; })) {
    return "";
  }
  const auto layout = guest_layout(devices, host_nodes(spec));
  pugi::xml_document document;
  auto system = with(add(document, "system"), "version", "1");
  std::map<int, pugi::xml_node> cells;
  std::map<int, pugi::xml_node> switches;  // by index of the upstream port
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!concerns_nccl(devices[i])) { continue; }
    const auto& path = layout.slots[i].controllers;
    const int cell = layout.controller(path.front()).numa_cell.value_or(0);
    auto& cpu = cells[cell];
    if (!cpu) { cpu = with(add(system, "cpu"), "numaid", std::to_string(cell)); }
    auto parent = cpu;
    for (const int index : path) {
      const auto& controller = layout.controller(index);
      if (controller.model != "pcie-switch-upstream-port") { continue; }
      auto& above = switches[index];
      if (!above) {
        above = add_nccl_pci(parent, controller.guest_address, nccl_bridge_class, devices[i].link);
      }
      parent = above;
    }
    add_nccl_pci(parent, layout.slots[i].guest_address, nccl_class(devices[i].device_class), devices[i].link);
  }
  return xml_text(document);
}

}  // namespace virtrain::vmctl
