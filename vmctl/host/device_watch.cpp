#include "vmctl/host/device_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/files/reading.h"
#include "common/text/units.h"
#include "vmctl/devices/pci.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

std::map<std::string, LinkErrors> link_errors_of(const std::vector<HostDevice>& devices) {
  std::map<std::string, LinkErrors> errors;
  for (const auto& device : devices) {
    if (const auto counted = read_link_errors(device.function)) {
      errors.emplace(device.function.address, *counted);
    }
  }
  return errors;
}

/// "16.0 GT/s PCIe" is 16; 0 where there is no link.
double gigatransfers_of(const std::string& speed) {
  return parse_number(speed.substr(0, speed.find(' '))).value_or(0);
}

/// A core's folder has a link named after its node.
std::optional<int> numa_node_of(const fs::path& root, int core) {
  constexpr std::string_view prefix = "node";
  for (const auto& entry : entries_of(root / fmt::format("sys/devices/system/cpu/cpu{}", core))) {
    const auto name = entry.filename().string();
    if (!name.starts_with(prefix)) { continue; }
    if (const auto node = parse_integer(name.substr(prefix.size()))) { return static_cast<int>(*node); }
  }
  return std::nullopt;
}

/// The best link that card and slot allow: a card may be faster than its slot.
LinkEvidence best_link(const PciFunction& pci, const fs::path& root) {
  LinkEvidence link;
  link.possible_gigatransfers = gigatransfers_of(pci.link_possible.speed);
  link.possible_lanes = pci.link_possible.width;
  const auto slot = pci.bridges.empty() ? std::nullopt : read_pci_function(root, pci.bridges.back());
  if (!slot || slot->link_possible.width == 0) { return link; }
  link.possible_gigatransfers =
      std::min(link.possible_gigatransfers, gigatransfers_of(slot->link_possible.speed));
  link.possible_lanes = std::min(link.possible_lanes, slot->link_possible.width);
  return link;
}

}  // namespace

DeviceWatch::DeviceWatch(const std::vector<std::string>& addresses, fs::path root)
    : root_(std::move(root)), energy_(root_) {
  if (addresses.empty()) { return; }
  devices_ = read_devices(root_, addresses);
  before_ = link_errors_of(devices_);
  for (const auto& device : devices_) {
    best_links_[device.function.address] = best_link(device.function, root_);
  }
}

void DeviceWatch::look() {
  energy_.read();
  for (const auto& device : devices_) {
    const auto& pci = device.function;
    if (device.device_class != DeviceClass::gpu || pci.link_possible.width == 0) { continue; }
    auto& link = links_.try_emplace(pci.address, best_links_.at(pci.address)).first->second;
    const auto lanes = parse_integer(read_value(pci.folder / "current_link_width").value_or(""));
    link.lanes = std::max(link.lanes, static_cast<int>(lanes.value_or(0)));
    link.gigatransfers = std::max(
        link.gigatransfers, gigatransfers_of(read_value(pci.folder / "current_link_speed").value_or("")));
  }
}

DeviceEvidence DeviceWatch::finish() const {
  DeviceEvidence seen;
  seen.package_energy = energy_.readings();
  if (devices_.empty()) { return seen; }
  std::vector<const HostDevice*> devices;
  for (const auto& device : devices_) { devices.push_back(&device); }
  seen.link_errors_before = before_;
  seen.link_errors_after = link_errors_of(devices_);
  seen.links = links_;
  seen.acs_gaps = acs_gaps(acs_above(root_, devices));
  seen.unsafe_interrupts = allows_unsafe_interrupts(root_);
  return seen;
}

std::vector<int> numa_nodes_of(const fs::path& root, const std::vector<int>& cores) {
  std::vector<int> nodes;
  for (const int core : cores) {
    if (const auto node = numa_node_of(root, core)) { nodes.push_back(*node); }
  }
  return nodes;
}

}  // namespace virtrain::vmctl
