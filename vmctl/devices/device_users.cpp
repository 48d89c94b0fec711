#include "vmctl/devices/device_users.h"

#include <algorithm>
#include <map>

#include "common/system/nvme.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Devices by what they are used through: a node under /dev, or a network interface.
using DevicesByName = std::map<std::string, std::vector<HostDevice*>>;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) { names.push_back(entry.filename().string()); }
  return names;
}

/// Disks of a function, with their partitions.
std::vector<std::string> disks_of(const fs::path& root, const fs::path& folder) {
  std::vector<std::string> disks;
  for (const auto& disk : nvme_namespaces(folder)) {
    disks.push_back(disk);
    for (const auto& part : names_in(root / "sys/class/block" / disk)) {
      if (part.starts_with(disk)) { disks.push_back(part); }
    }
  }
  return disks;
}

std::vector<std::string> nodes_of(const fs::path& root, const HostDevice& device) {
  std::vector<std::string> nodes;
  if (device.minor) { nodes.push_back("/dev/nvidia" + std::to_string(*device.minor)); }
  if (device.function.iommu_group) {
    nodes.push_back("/dev/vfio/" + std::to_string(*device.function.iommu_group));
  }
  // A display server, or a renderer without one: nvidia-drm's nodes hold the card as its own do.
  for (const auto& card : names_in(device.function.folder / "drm")) { nodes.push_back("/dev/dri/" + card); }
  for (const auto& verbs : names_in(device.function.folder / "infiniband_verbs")) {
    nodes.push_back("/dev/infiniband/" + verbs);
  }
  for (const auto& disk : disks_of(root, device.function.folder)) { nodes.push_back("/dev/" + disk); }
  return nodes;
}

void add_user(const DevicesByName& devices, const std::string& name, int pid, const std::string& process) {
  const auto found = devices.find(name);
  if (found == devices.end()) { return; }
  for (auto* device : found->second) { device->users.push_back({pid, process, name}); }
}

void find_open_files(const fs::path& root, const DevicesByName& devices) {
  for (const auto& process : names_in(root / "proc")) {
    const auto pid = parse_integer(process);
    if (!pid) { continue; }
    const auto folder = root / "proc" / process;
    for (const auto& descriptor : names_in(folder / "fd")) {
      std::error_code failure;
      const auto target = fs::read_symlink(folder / "fd" / descriptor, failure).string();
      if (!failure) {
        add_user(devices, target, static_cast<int>(*pid), read_value(folder / "comm").value_or("?"));
      }
    }
  }
}

/// proc(5): "/dev/nvme0n1 /mnt ext4 rw 0 0". Process 1 sees the mounts of the host, whoever asks.
void find_mounts(const fs::path& root, const DevicesByName& devices) {
  for (const auto* file : {"proc/1/mounts", "proc/mounts"}) {
    const auto text = read_file(root / file);
    if (!text) { continue; }
    for (const auto& line : split(*text, '\n')) {
      const auto words = words_of(line);
      if (words.size() > 1) {
        add_user(devices, std::string(words[0]), 0, "mounted on " + std::string(words[1]));
      }
    }
    return;
  }
}

void find_swap(const fs::path& root, const DevicesByName& devices) {
  for (const auto& line : split(read_file(root / "proc/swaps").value_or(""), '\n')) {
    const auto words = words_of(line);
    if (!words.empty()) { add_user(devices, std::string(words[0]), 0, "swap"); }
  }
}

/// An interface with an address has a route; one that is merely up may be taken.
void find_routes(const fs::path& root, const DevicesByName& devices) {
  for (const auto& line : split(read_file(root / "proc/net/route").value_or(""), '\n')) {
    const auto words = words_of(line);
    if (!words.empty()) { add_user(devices, std::string(words[0]), 0, "route"); }
  }
}

}  // namespace

void find_users(const fs::path& root, std::vector<HostDevice>& devices) {
  DevicesByName by_node, by_interface;
  for (auto& device : devices) {
    device.users.clear();
    for (const auto& node : nodes_of(root, device)) { by_node[node].push_back(&device); }
    for (const auto& interface : names_in(device.function.folder / "net")) {
      by_interface[interface].push_back(&device);
    }
  }
  if (!by_interface.empty()) { find_routes(root, by_interface); }
  if (by_node.empty()) { return; }
  find_open_files(root, by_node);
  find_mounts(root, by_node);
  find_swap(root, by_node);
}

}  // namespace virtrain::vmctl
