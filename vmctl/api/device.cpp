#include "vmctl/api/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/contains.h"
#include "common/text/text.h"

namespace virtrain::vmctl {

bool is_in_another_namespace(const HostDevice& device) {
  const auto& pci = device.function;
  // mlx5_vfio_pci and its like belong to VMs, too.
  const bool has_host_driver = !pci.driver.empty() && pci.driver.find("vfio") == std::string::npos;
  return pci.class_code.starts_with("0x0200") && has_host_driver && device.interfaces.empty();
}

std::string in_words(const DeviceUser& user) {
  if (user.pid > 0) { return fmt::format("{} (pid {}) has {} open", user.process, user.pid, user.path); }
  if (user.process == "route") { return user.path + " has a route"; }
  return fmt::format("{} is {}", user.path, user.process == "swap" ? "swap space" : user.process);
}

std::string kernel_address(const std::string& nvidia_address) {
  const auto domain = nvidia_address.find(':');
  return lower(domain != std::string::npos && domain > 4 ? nvidia_address.substr(domain - 4)
                                                         : nvidia_address);
}

bool is_made_for_each_vm(const DeviceGrant& grant) {
  return grant.kind == GrantKind::mdev || grant.kind == GrantKind::vendor_vfio;
}

bool must_make_way(const std::vector<DeviceGrant>& lent, const std::vector<DeviceGrant>& wanted) {
  std::vector<DeviceGrant> missing;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(missing),
               [&](const auto& grant) { return !contains(lent, grant); });
  const auto is_of_its_card = [](const DeviceGrant& old) {
    return [&old](const DeviceGrant& grant) { return grant.physical_function == old.physical_function; };
  };
  const auto is_in_the_way = [&](const DeviceGrant& old) {
    return old.kind == GrantKind::virtual_function && std::ranges::any_of(missing, is_of_its_card(old));
  };
  const auto is_to_be_erased = [&](const DeviceGrant& old) {
    return std::ranges::any_of(wanted, [&](const DeviceGrant& grant) {
      return grant.between_tenants == BetweenTenants::erase && grant.address == old.address;
    });
  };
  return std::ranges::any_of(lent, is_to_be_erased) ||
         (!missing.empty() && std::ranges::any_of(lent, is_in_the_way));
}

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
