#include "vmctl/doctor/checks/leaks.h"

#include <set>

#include "vmctl/devices/device_users.h"
#include "vmctl/doctor/checks/words.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Nodes below /dev/vfio that a process has open: a VM's devices.
std::set<std::string> open_groups(const DeviceHost& host) {
  std::set<std::string> open;
  for (const auto& pid : names_in(host, "proc")) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) { continue; }
    const auto folder = fs::path("proc") / pid / "fd";
    for (const auto& descriptor : names_in(host, folder)) {
      std::error_code failure;
      const auto target = fs::read_symlink(host.root / folder / descriptor, failure).string();
      if (!failure && target.starts_with("/dev/vfio/")) { open.insert(target); }
    }
  }
  return open;
}

bool is_held(const fs::path& device, const std::set<std::string>& open) {
  const auto nodes = vfio_nodes(device);
  return std::ranges::any_of(nodes, [&](const auto& node) { return open.contains(node); });
}

bool matters(const DeviceHost& host, const std::string& address) {
  if (!host.demand) { return true; }
  const auto devices = host.devices();
  return std::ranges::any_of(devices, [&](const auto* device) {
    return device->function.address == address || device->function.physical_function == address;
  });
}

void look_at_binding(const DeviceHost& host, const PciFunction& pci, const std::set<std::string>& open,
                     Words& leaks) {
  if (pci.driver_override.empty() || exists(host, "etc/driverctl.d/" + pci.address)) { return; }
  if (pci.driver != pci.driver_override) {
    leaks.push_back(fmt::format("{} has driver_override {} but {}: its binding was cut off", pci.address,
                                pci.driver_override,
                                pci.driver.empty() ? "no driver" : "is on " + pci.driver));
  } else if (pci.driver == "vfio-pci" && !is_held(pci.folder, open)) {
    leaks.push_back(fmt::format("{} is bound to vfio-pci and no process has it", pci.address));
  }
}

void look_at_vgpu(const DeviceHost& host, const PciFunction& pci, const std::set<std::string>& open,
                  Words& leaks) {
  const auto type = read_value(pci.folder / "nvidia/current_vgpu_type").value_or("0");
  if (type != "0" && !is_held(pci.folder, open) && !host.is_leased(pci.physical_function)) {
    leaks.push_back(fmt::format("{} is a vGPU of type {} and no process has it", pci.address, type));
  }
}

/// /etc/mdevctl.d/PARENT/UUID: defined, to be there whether or not a VM runs.
bool is_defined(const DeviceHost& host, const std::string& uuid) {
  const auto parents = names_in(host, "etc/mdevctl.d");
  return std::ranges::any_of(
      parents, [&](const auto& parent) { return exists(host, fs::path("etc/mdevctl.d") / parent / uuid); });
}

void look_at_mdevs(const DeviceHost& host, const std::set<std::string>& open, Words& leaks) {
  for (const auto& uuid : names_in(host, "sys/bus/mdev/devices")) {
    const auto device = host.root / "sys/bus/mdev/devices" / uuid;
    std::error_code ignored;
    const auto parent = fs::canonical(device, ignored).parent_path().filename().string();
    if (!is_held(device, open) && !is_defined(host, uuid) && matters(host, parent) && !host.is_leased(uuid) &&
        !host.is_leased(parent)) {
      leaks.push_back(fmt::format("mediated device {} of {} exists and no process has it", uuid, parent));
    }
  }
}

}  // namespace

std::vector<std::string> device_leaks(const DeviceHost& host) {
  Words leaks;
  const auto open = open_groups(host);
  for (const auto* list : {&host.inventory.devices, &host.inventory.other_devices}) {
    for (const auto& device : *list) {
      const auto& pci = device.function;
      if (host.is_leased(pci.address) || !matters(host, pci.address)) { continue; }
      look_at_binding(host, pci, open, leaks);
      look_at_vgpu(host, pci, open, leaks);
    }
  }
  look_at_mdevs(host, open, leaks);
  return leaks;
}

}  // namespace virtrain::vmctl
