#include "harness/cli/device_listing.h"

#include <fmt/format.h>

#include "common/text/json.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;
using results::cell;
using vmctl::HostDevice;
using vmctl::PciLink;

/// The value of this device; nothing if there is none.
template <typename Value>
const Value* of(const std::map<std::string, Value>& by_address, const HostDevice& device) {
  const auto found = by_address.find(device.function.address);
  return found == by_address.end() ? nullptr : &found->second;
}

std::string lease_text(const vmctl::DeviceListing& context, const HostDevice& device) {
  const auto* lease = of(context.leases, device);
  if (lease != nullptr) { return *lease; }
  return of(context.quarantined, device) == nullptr ? "" : "in quarantine";
}

/// "16.0 GT/s PCIe" ×16 as "16.0 GT/s x16".
std::string link_text(const PciLink& link) {
  return link.width == 0 ? ""
                         : fmt::format("{} x{}", link.speed.substr(0, link.speed.find(" PCIe")), link.width);
}

std::string link_cell_text(const vmctl::PciFunction& pci) {
  if (pci.link == pci.link_possible) { return link_text(pci.link); }
  return fmt::format("{} (of {})", link_text(pci.link), link_text(pci.link_possible));
}

std::string group_text(const vmctl::PciFunction& pci) {
  if (!pci.iommu_group) { return "none"; }
  const auto members = pci.iommu_group_members.size();
  return members < 2 ? std::to_string(*pci.iommu_group)
                     : fmt::format("{} (+{})", *pci.iommu_group, members - 1);
}

/// "below pci0000:16 / 0000:16:02.0, BARs of 16MiB 64GiB 32MiB, resets by flr bus".
std::string place_text(const vmctl::PciFunction& pci) {
  std::vector<std::string> parts;
  if (!pci.root_complex.empty()) {
    parts.push_back(fmt::format("below {}{}", pci.root_complex,
                                pci.bridges.empty() ? "" : " / " + join(pci.bridges, " / ")));
  }
  std::vector<std::string> sizes;
  for (const auto& bar : pci.bars) { sizes.push_back(format_size(bar.bytes)); }
  if (!sizes.empty()) { parts.push_back("BARs of " + join(sizes, " ")); }
  if (!pci.reset_methods.empty()) { parts.push_back("resets by " + join(pci.reset_methods, " ")); }
  if (!pci.driver_override.empty()) { parts.push_back("driver_override " + pci.driver_override); }
  if (pci.virtual_functions_possible > 0) {
    parts.push_back(fmt::format("{} of {} virtual functions on", pci.virtual_functions.size(),
                                pci.virtual_functions_possible));
  }
  if (!pci.physical_function.empty()) { parts.push_back("virtual function of " + pci.physical_function); }
  return join(parts, ", ");
}

std::string mig_text(const vmctl::GpuReport& report) {
  const auto word = [](bool on) { return on ? "on" : "off"; };
  const bool pending = report.mig_pending.value_or(*report.mig);
  return fmt::format("MIG is {}{}", word(*report.mig),
                     pending == *report.mig ? "" : fmt::format(", {} after the next reset", word(pending)));
}

/// Warnings for a reader before the device is lent.
std::vector<std::string> remarks(const HostDevice& device, const vmctl::DeviceListing& context) {
  const auto& pci = device.function;
  std::vector<std::string> lines{fmt::format("{} {}", pci.address, device.name)};
  const auto add = [&](const std::string& words) { lines.push_back("  " + words); };
  add(fmt::format("{}: {}", to_string(device.mechanism), device.mechanism_reason));
  if (const auto* reason = of(context.quarantined, device)) { add("in quarantine: " + *reason); }
  if (const auto place = place_text(pci); !place.empty()) { add(place); }
  if (pci.iommu_group_members.size() > 1) { add("its IOMMU group is " + join(pci.iommu_group_members, " ")); }
  for (const auto& user : device.users) { add("in use: " + in_words(user)); }
  if (!device.nvlink_peers.empty()) { add("NVLink to " + join(device.nvlink_peers, " ")); }
  if (const auto* report = of(context.reports, device); report != nullptr && report->mig) {
    add(mig_text(*report));
  }
  if (!device.mig_instances.empty()) { add("MIG instances: " + join(device.mig_instances, " ")); }
  for (const auto& vgpu : device.vgpus) { add("carries a vGPU: " + vgpu); }
  for (const auto& type : device.vgpu_types) {
    add(fmt::format("vGPU type {} ({}){}", type.id, type.name,
                    type.available_instances ? fmt::format(", {} left", *type.available_instances) : ""));
  }
  for (const auto& port : device.ports) {
    add(fmt::format("port {} {} {} {}{}", port.name, port.link_layer, port.state, port.rate,
                    port.interface.empty() || !port.mtu_bytes
                        ? ""
                        : fmt::format(", {} MTU {}", port.interface, *port.mtu_bytes)));
  }
  if (pci.reset_methods.empty()) {
    add("no reset method: a tenant's state could leak, so it is never assigned to a VM");
  }
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
  for (const auto& bar : device.function.bars) {
    out["bars"].push_back({{"index", bar.index},
                           {"bytes", bar.bytes},
                           {"is_64bit", bar.is_64bit},
                           {"is_prefetchable", bar.is_prefetchable}});
  }
  for (const auto& type : device.vgpu_types) {
    out["vgpu_types"].push_back(
        {{"id", type.id}, {"name", type.name}, {"available_instances", or_null(type.available_instances)}});
  }
  for (const auto& port : device.ports) {
    out["ports"].push_back({{"name", port.name},
                            {"interface", text_or_null(port.interface)},
                            {"state", port.state},
                            {"rate", port.rate},
                            {"link_layer", port.link_layer},
                            {"mtu_bytes", or_null(port.mtu_bytes)}});
  }
  for (const auto& user : device.users) {
    out["users"].push_back({{"pid", user.pid}, {"process", user.process}, {"path", user.path}});
  }
  return out;
}

json mig_json(const vmctl::GpuReport* report) {
  if (report == nullptr || !report->mig) { return nullptr; }
  return {{"enabled", *report->mig}, {"enabled_after_reset", or_null(report->mig_pending)}};
}

json device_json(const HostDevice& device, const vmctl::DeviceListing& context) {
  const auto& pci = device.function;
  const auto* lease = of(context.leases, device);
  const auto* quarantine = of(context.quarantined, device);
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
              {"vgpus", device.vgpus},
              {"mig_instances", device.mig_instances},
              {"nvlink_peers", device.nvlink_peers},
              {"physical_function", text_or_null(pci.physical_function)},
              {"virtual_functions", pci.virtual_functions},
              {"virtual_functions_possible", pci.virtual_functions_possible},
              {"mig", mig_json(of(context.reports, device))},
              {"lease", lease == nullptr ? json() : json(*lease)},
              {"quarantine", quarantine == nullptr ? json() : json(*quarantine)}});
  return out;
}

}  // namespace

results::Table devices_table(const vmctl::DeviceListing& listing) {
  results::Table table;
  table.columns = {{"address", "address"},
                   {"kind", "kind"},
                   {.key = "name", .head = "name", .wraps = true},
                   {"iommu_group", "group"},
                   {"numa_node", "NUMA"},
                   {"link", "link"},
                   {"driver", "driver"},
                   {"mechanism", "mechanism"},
                   {.key = "lease", .head = "lease", .hide_empty = true, .wraps = true}};
  for (const auto& device : listing.devices) {
    const auto& pci = device.function;
    table.rows.push_back({cell(pci.address), cell(to_string(device.device_class)), cell(device.name),
                          cell(group_text(pci)),
                          cell(pci.numa_node < 0 ? "-" : std::to_string(pci.numa_node)),
                          cell(link_cell_text(pci)), cell(pci.driver.empty() ? "-" : pci.driver),
                          cell(to_string(device.mechanism)), cell(lease_text(listing, device))});
    for (auto& line : remarks(device, listing)) { table.notes.push_back(std::move(line)); }
  }
  return table;
}

json devices_json(const vmctl::DeviceListing& listing) {
  json list = json::array();
  for (const auto& device : listing.devices) { list.push_back(device_json(device, listing)); }
  return list;
}

}  // namespace virtrain::harness
