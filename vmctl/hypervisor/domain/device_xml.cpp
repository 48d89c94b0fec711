#include "vmctl/hypervisor/domain/device_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/error.h"

namespace virtrain::vmctl {
namespace {

using Devices = std::vector<PlacedDevice>;

constexpr const char* qemu_namespace = "http://libvirt.org/schemas/domain/qemu/1.0";
constexpr int most_cliques = 16;  // four bits

/// "0000:17:00.0" as the attributes of libvirt's <address>.
void set_host_address(pugi::xml_node address, const std::string& text) {
  if (text.size() != 12) {
    throw Error("describe a device", ErrorCode::bad_input, "'" + text + "' is not a PCI address");
  }
  with(address, "domain", "0x" + text.substr(0, 4));
  with(address, "bus", "0x" + text.substr(5, 2));
  with(address, "slot", "0x" + text.substr(8, 2));
  with(address, "function", "0x" + text.substr(11));
}

void add_plug(pugi::xml_node parent, const GuestPlug& plug) {
  add(parent, "address",
      {{"type", "pci"},
       {"domain", "0x0000"},
       {"bus", fmt::format("0x{:02x}", plug.controller)},
       {"slot", fmt::format("0x{:02x}", plug.slot)},
       {"function", "0x0"}});
}

const char* word_for(const PlacedDevice& device) {
  switch (device.device_class) {
    case DeviceClass::gpu:
      return is_made_for_each_vm(device.grant) ? "vgpu" : "gpu";
    case DeviceClass::rdma_nic:
      return "nic";
    case DeviceClass::nvswitch:
      return "nvswitch";
    case DeviceClass::other:
      break;
  }
  return "device";
}

/// "ua-gpu0", "ua-gpu1", "ua-nic0": names that are the user's must start like this.
std::string alias(const Devices& granted, std::size_t index) {
  const std::string word = word_for(granted[index]);
  const auto before = std::count_if(granted.begin(), granted.begin() + static_cast<std::ptrdiff_t>(index),
                                    [&](const auto& other) { return word == word_for(other); });
  return fmt::format("ua-{}{}", word, before);
}

/// libvirt sets the MAC of an Ethernet adapter's virtual function through the physical one; an InfiniBand one
/// has none, and goes as any other function.
bool goes_as_interface(const PlacedDevice& device) {
  return device.grant.kind == GrantKind::virtual_function && device.is_ethernet && !device.mac.empty();
}

/// The device itself, without alias and address.
pugi::xml_node add_kind(pugi::xml_node parent, const PlacedDevice& device) {
  if (goes_as_interface(device)) {
    auto node = add(parent, "interface", {{"type", "hostdev"}, {"managed", "no"}});
    add(node, "mac", {{"address", device.mac}});
    set_host_address(add(add(node, "source"), "address", {{"type", "pci"}}), device.grant.address);
    return node;
  }
  auto node = add(parent, "hostdev", {{"mode", "subsystem"}});
  if (device.grant.kind == GrantKind::mdev) {
    with(with(node, "type", "mdev"), "model", "vfio-pci");
    add(add(node, "source"), "address", {{"uuid", device.grant.uuid}});
    return node;
  }
  // The binder has bound it: libvirt's own unbinding would hold up its daemon for as long as it is stuck, and
  // would take a vendor's VFIO driver away.
  with(with(node, "type", "pci"), "managed", "no");
  if (device.vfio == Vfio::iommufd) { add(node, "driver", {{"iommufd", "yes"}}); }
  set_host_address(add(add(node, "source"), "address"), device.grant.address);
  return node;
}

bool can_have_clique(const PlacedDevice& device) {
  return device.vendor == nvidia && device.is_display && device.grant.kind == GrantKind::passthrough;
}

}  // namespace

void add_controller(pugi::xml_node parent, const GuestController& controller) {
  auto node =
      add(parent, "controller",
          {{"type", "pci"}, {"index", std::to_string(controller.index)}, {"model", controller.model}});
  if (!controller.plug) {
    auto target = add(node, "target", {{"busNr", std::to_string(controller.bus_number)}});
    if (controller.numa_cell) { add(target, "node", std::to_string(*controller.numa_cell)); }
    return;
  }
  // Chassis and port number tell root and downstream ports apart; an upstream port has none.
  if (controller.model != "pcie-switch-upstream-port") {
    add(node, "target",
        {{"chassis", std::to_string(controller.index)},
         {"port", fmt::format("0x{:x}", controller.plug->slot)}});
  }
  add_plug(node, *controller.plug);
}

void add_granted_device(pugi::xml_node parent, const Devices& granted, std::size_t index,
                        const GuestPlug& plug) {
  auto node = add_kind(parent, granted.at(index));
  add(node, "alias", {{"name", alias(granted, index)}});
  add_plug(node, plug);
}

void add_granted_devices(pugi::xml_node devices, const Devices& granted, const GuestLayout& layout) {
  if (granted.empty()) { return; }
  add(devices, "controller", {{"type", "pci"}, {"index", "0"}, {"model", "pcie-root"}});
  for (const auto& controller : layout.controllers) { add_controller(devices, controller); }
  for (std::size_t i = 0; i < granted.size(); ++i) {
    add_granted_device(devices, granted, i, layout.slots.at(i).plug);
  }
}

std::vector<int> cliques(const Devices& granted, Clique clique) {
  std::vector<int> numbers(granted.size(), -1);
  if (clique == Clique::off) { return numbers; }
  std::map<std::string, std::vector<std::size_t>> together;
  for (std::size_t i = 0; i < granted.size(); ++i) {
    if (!can_have_clique(granted[i])) { continue; }
    const auto& bridges = granted[i].bridges;
    // Two bridges at least: a root port, and a switch below it that others may share.
    if (clique == Clique::all) {
      together[""].push_back(i);
    } else if (bridges.size() > 1) {
      together[granted[i].root_complex + " " + bridges[0] + " " + bridges[1]].push_back(i);
    }
  }
  int next = 0;
  for (const auto& [place, members] : together) {
    if (members.size() < 2 || next == most_cliques) { continue; }
    for (const auto member : members) { numbers[member] = next; }
    ++next;
  }
  return numbers;
}

void add_cliques(pugi::xml_node domain, const Devices& granted, Clique clique) {
  const auto numbers = cliques(granted, clique);
  if (std::ranges::all_of(numbers, [](int number) { return number < 0; })) { return; }
  domain.append_attribute("xmlns:qemu").set_value(qemu_namespace);
  auto override_node = add(domain, "qemu:override");
  for (std::size_t i = 0; i < granted.size(); ++i) {
    if (numbers[i] < 0) { continue; }
    auto device = add(override_node, "qemu:device", {{"alias", alias(granted, i)}});
    add(add(device, "qemu:frontend"), "qemu:property",
        {{"name", "x-nv-gpudirect-clique"}, {"type", "unsigned"}, {"value", std::to_string(numbers[i])}});
  }
}

}  // namespace virtrain::vmctl
