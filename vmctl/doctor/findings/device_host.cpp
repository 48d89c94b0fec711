#include "vmctl/doctor/findings/device_host.h"

#include <algorithm>

#include "common/contains.h"

namespace virtrain::vmctl {

const HostDevice* DeviceHost::find(const std::string& address) const {
  return find_device(inventory, address);
}

std::vector<std::pair<DeviceGrant, const HostDevice*>> DeviceHost::wanted() const {
  std::vector<std::pair<DeviceGrant, const HostDevice*>> found;
  for (const auto& one : demand ? demand->devices() : std::vector<PlacedDevice>()) {
    const auto* device = find(one.grant.address);
    if (device == nullptr) { device = find(one.grant.physical_function); }
    if (device != nullptr) { found.emplace_back(one.grant, device); }
  }
  return found;
}

std::vector<const HostDevice*> DeviceHost::devices() const {
  std::vector<const HostDevice*> found;
  if (demand) {
    for (const auto& [grant, device] : wanted()) { add_once(found, device); }
    return found;
  }
  for (const auto& device : inventory.devices) {
    if (device.device_class == DeviceClass::gpu) { found.push_back(&device); }
  }
  return found;
}

std::vector<const HostDevice*> DeviceHost::gpus() const {
  auto found = devices();
  std::erase_if(found, [](const auto* device) { return device->device_class != DeviceClass::gpu; });
  return found;
}

std::vector<const HostDevice*> DeviceHost::active_adapters() const {
  std::vector<const HostDevice*> found;
  const auto wanted = devices();
  for (const auto& device : inventory.devices) {
    const bool is_wanted = !demand || contains(wanted, &device);
    const bool is_active =
        std::ranges::any_of(device.ports, [](const auto& port) { return port.state == "ACTIVE"; });
    if (is_wanted && is_active) { found.push_back(&device); }
  }
  return found;
}

std::vector<const HostDevice*> DeviceHost::rebound() const {
  auto found = devices();
  std::erase_if(found, [&](const HostDevice* device) {
    if (!demand) {
      return device->mechanism != Mechanism::passthrough && device->mechanism != Mechanism::undecided;
    }
    const auto wanted = demand->devices();
    return std::ranges::none_of(wanted, [&](const PlacedDevice& one) {
      return one.grant.address == device->function.address &&
             (one.grant.kind == GrantKind::passthrough || one.grant.kind == GrantKind::virtual_function);
    });
  });
  return found;
}

const GpuReport* DeviceHost::report_on(const HostDevice& gpu) const {
  for (const auto* address : {&gpu.function.address, &gpu.function.physical_function}) {
    if (const auto found = words.gpus.find(*address); found != words.gpus.end()) { return &found->second; }
  }
  return nullptr;
}

bool DeviceHost::is_leased(const std::string& address) const {
  return std::ranges::find(leased, address) != leased.end();
}

}  // namespace virtrain::vmctl
