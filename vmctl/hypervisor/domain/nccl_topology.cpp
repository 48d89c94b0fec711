#include "vmctl/hypervisor/domain/nccl_topology.h"

#include <algorithm>
#include <map>

#include "vmctl/hypervisor/domain/guest_layout.h"
#include "vmctl/hypervisor/domain/xml_nodes.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* bridge_class = "0x060400";
constexpr const char* gpu_class = "0x030200";
constexpr const char* adapter_class = "0x020700";

pugi::xml_node add_pci(pugi::xml_node parent, const std::string& address, const char* class_code,
                       const PciLink& link) {
  auto node = add(parent, "pci", {{"busid", address}, {"class", class_code}});
  if (link.width == 0) { return node; }
  with(node, "link_speed", link.speed);
  return with(node, "link_width", std::to_string(link.width));
}

bool concerns_nccl(const PlacedDevice& device) {
  return device.device_class == DeviceClass::gpu || device.device_class == DeviceClass::rdma_nic;
}

}  // namespace

std::string nccl_topology(const DomainSpec& spec) {
  const auto& devices = spec.devices;
  if (std::none_of(devices.begin(), devices.end(),
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
      if (!above) { above = add_pci(parent, controller.guest_address, bridge_class, devices[i].link); }
      parent = above;
    }
    add_pci(parent, layout.slots[i].guest_address,
            devices[i].device_class == DeviceClass::gpu ? gpu_class : adapter_class, devices[i].link);
  }
  return xml_text(document);
}

}  // namespace virtrain::vmctl
