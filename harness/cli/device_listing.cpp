#include "harness/cli/device_listing.h"

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;
using results::cell;
using vmctl::HostDevice;
using vmctl::PciLink;

json text_or_null(const std::string& text) {
  return text.empty() ? json() : json(text);
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

std::string lease_of(const DeviceLeases& leases, const HostDevice& device) {
  const auto found = leases.find(device.function.address);
  return found == leases.end() ? "" : found->second;
}

/// "16.0 GT/s PCIe" ×16 as "16.0 GT/s x16".
std::string link_text(const PciLink& link) {
  return link.width == 0 ? ""
                         : fmt::format("{} x{}", link.speed.substr(0, link.speed.find(" PCIe")), link.width);
}

std::string link_cell_text(const vmctl::PciFunction& pci) {
  if (pci.link == pci.link_possible) return link_text(pci.link);
  return fmt::format("{} (of {})", link_text(pci.link), link_text(pci.link_possible));
}

std::string group_text(const vmctl::PciFunction& pci) {
  if (!pci.iommu_group) return "none";
  const auto others = pci.iommu_group_members.size() - 1;
  return others == 0 ? std::to_string(*pci.iommu_group) : fmt::format("{} (+{})", *pci.iommu_group, others);
}

/// What a reader must know before the device is lent.
std::vector<std::string> remarks(const HostDevice& device) {
  std::vector<std::string> lines;
  const auto& pci = device.function;
  const auto add = [&](const std::string& words) { lines.push_back(pci.address + ": " + words); };
  add(fmt::format("{}: {}", to_string(device.mechanism), device.mechanism_reason));
  if (pci.iommu_group_members.size() > 1) add("its IOMMU group is " + join(pci.iommu_group_members, " "));
  for (const auto& user : device.users)
    add(fmt::format("{} is open in {} (pid {})", user.path, user.process, user.pid));
  if (!device.nvlink_peers.empty()) add("NVLink to " + join(device.nvlink_peers, " "));
  if (!device.mig_instances.empty()) add("MIG instances: " + join(device.mig_instances, " "));
  for (const auto& type : device.vgpu_types)
    add(fmt::format("vGPU type {} ({}){}", type.id, type.name,
                    type.available_instances ? fmt::format(", {} left", *type.available_instances) : ""));
  for (const auto& port : device.ports)
    add(fmt::format("port {} {} {} {}{}", port.name, port.link_layer, port.state, port.rate,
                    port.interface.empty() || !port.mtu_bytes
                        ? ""
                        : fmt::format(", {} MTU {}", port.interface, *port.mtu_bytes)));
  if (pci.reset_methods.empty()) add("no reset method: a tenant's state could leak, so it is never lent");
  return lines;
}

json link_json(const PciLink& link) {
  return link.width == 0 ? json() : json{{"speed", link.speed}, {"width", link.width}};
}

json lists_json(const HostDevice& device) {
  json out{{"bars", json::array()},
           {"vgpu_types", json::array()},
           {"ports", json::array()},
           {"users", json::array()}};
  for (const auto& bar : device.function.bars)
    out["bars"].push_back({{"index", bar.index},
                           {"bytes", bar.bytes},
                           {"is_64bit", bar.is_64bit},
                           {"is_prefetchable", bar.is_prefetchable}});
  for (const auto& type : device.vgpu_types)
    out["vgpu_types"].push_back(
        {{"id", type.id}, {"name", type.name}, {"available_instances", or_null(type.available_instances)}});
  for (const auto& port : device.ports)
    out["ports"].push_back({{"name", port.name},
                            {"interface", text_or_null(port.interface)},
                            {"state", port.state},
                            {"rate", port.rate},
                            {"link_layer", port.link_layer},
                            {"mtu_bytes", or_null(port.mtu_bytes)}});
  for (const auto& user : device.users)
    out["users"].push_back({{"pid", user.pid}, {"process", user.process}, {"path", user.path}});
  return out;
}

json device_json(const HostDevice& device, const std::string& lease) {
  const auto& pci = device.function;
  json out = lists_json(device);
  out.update({{"address", pci.address},
              {"kind", to_string(device.device_class)},
              {"name", device.name},
              {"uuid", text_or_null(device.uuid)},
              {"vendor", pci.vendor},
              {"device", pci.device},
              {"class", pci.class_code},
              {"iommu_group", or_null(pci.iommu_group)},
              {"iommu_group_members", pci.iommu_group_members},
              {"numa_node", pci.numa_node < 0 ? json() : json(pci.numa_node)},
              {"root_complex", text_or_null(pci.root_complex)},
              {"bridges", pci.bridges},
              {"link", link_json(pci.link)},
              {"link_possible", link_json(pci.link_possible)},
              {"driver", text_or_null(pci.driver)},
              {"driver_override", text_or_null(pci.driver_override)},
              {"reset_methods", pci.reset_methods},
              {"power_state", text_or_null(pci.power_state)},
              {"mechanism", to_string(device.mechanism)},
              {"mechanism_reason", device.mechanism_reason},
              {"mig_instances", device.mig_instances},
              {"nvlink_peers", device.nvlink_peers},
              {"physical_function", text_or_null(pci.physical_function)},
              {"virtual_functions", pci.virtual_functions},
              {"virtual_functions_possible", pci.virtual_functions_possible},
              {"lease", text_or_null(lease)}});
  return out;
}

}  // namespace

results::Table devices_table(const std::vector<HostDevice>& devices, const DeviceLeases& leases) {
  results::Table table;
  table.columns = {{"address", "address"},   {"kind", "kind"},           {"name", "name"},
                   {"iommu_group", "group"}, {"numa_node", "NUMA"},      {"link", "link"},
                   {"driver", "driver"},     {"mechanism", "mechanism"}, {"lease", "lease"}};
  for (const auto& device : devices) {
    const auto& pci = device.function;
    table.rows.push_back({cell(pci.address), cell(to_string(device.device_class)), cell(device.name),
                          cell(group_text(pci)),
                          cell(pci.numa_node < 0 ? "-" : std::to_string(pci.numa_node)),
                          cell(link_cell_text(pci)), cell(pci.driver.empty() ? "-" : pci.driver),
                          cell(to_string(device.mechanism)), cell(lease_of(leases, device))});
    for (auto& line : remarks(device)) table.notes.push_back(std::move(line));
  }
  if (devices.empty())
    table.notes.emplace_back("no NVIDIA GPU and no RDMA adapter; scenarios with the cpu backend run");
  return table;
}

json devices_json(const std::vector<HostDevice>& devices, const DeviceLeases& leases) {
  json list = json::array();
  for (const auto& device : devices) list.push_back(device_json(device, lease_of(leases, device)));
  return list;
}

}  // namespace virtrain::harness
