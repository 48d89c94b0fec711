#include "vmctl/devices/device_users.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/nvme.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Devices by what they are used through: a node under /dev, or a network interface.
using DevicesByName = std::map<std::string, std::vector<HostDevice*>>;

/// Disks of a function, with their partitions.
std::vector<std::string> disks_of(const fs::path& root, const fs::path& folder) {
  std::vector<std::string> disks;
  for (const auto& disk : nvme_namespaces(folder)) {
    disks.push_back(disk);
    for (const auto& part : entry_names(root / "sys/class/block" / disk)) {
      if (part.starts_with(disk)) { disks.push_back(part); }
    }
  }
  return disks;
}

std::vector<std::string> nodes_of(const fs::path& root, const HostDevice& device) {
  auto nodes = vfio_nodes(device.function.folder);
  if (device.minor) { nodes.push_back("/dev/nvidia" + std::to_string(*device.minor)); }
  // A display server, or a renderer without one: nvidia-drm's nodes hold the card as its own do.
  for (const auto& card : entry_names(device.function.folder / "drm")) {
    nodes.push_back("/dev/dri/" + card);
  }
  for (const auto& verbs : entry_names(device.function.folder / "infiniband_verbs")) {
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
  for (const auto& process : entry_names(root / "proc")) {
    const auto pid = parse_integer(process);
    if (!pid) { continue; }
    const auto folder = root / "proc" / process;
    for (const auto& descriptor : entry_names(folder / "fd")) {
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

/// Whether another claims the disk at this moment.
bool is_claimed(const std::string& disk) {
  const UniqueFd fd(::open(("/dev/" + disk).c_str(), O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC));
  return !fd && errno == EBUSY;
}

/// Who has a disk without a mount or a process: volumes (LVM, dm-crypt, md) are holders, and file systems of
/// several disks (ZFS, btrfs) claim each.
void find_holders(const fs::path& root, HostDevice& device) {
  for (const auto& disk : disks_of(root, device.function.folder)) {
    for (const auto& holder : entry_names(root / "sys/class/block" / disk / "holders")) {
      device.users.push_back({0, "part of " + holder, "/dev/" + disk});
    }
    if (root == "/" && device.users.empty() && is_claimed(disk)) {
      device.users.push_back({0, "claimed by a file system or a volume", "/dev/" + disk});
    }
  }
}

/// An interface with an address has a route; one that is merely up may be taken.
void find_routes(const fs::path& root, const DevicesByName& devices) {
  for (const auto& line : split(read_file(root / "proc/net/route").value_or(""), '\n')) {
    const auto words = words_of(line);
    if (!words.empty()) { add_user(devices, std::string(words[0]), 0, "route"); }
  }
  // IPv6: the destination first, the interface last. Each that is up has routes for its link and for groups.
  for (const auto& line : split(read_file(root / "proc/net/ipv6_route").value_or(""), '\n')) {
    const auto words = words_of(line);
    if (words.empty() || words[0].starts_with("fe80") || words[0].starts_with("ff00")) { continue; }
    add_user(devices, std::string(words.back()), 0, "route");
  }
}

/// Bonds, bridges, VLANs and the like that are built on a port: it needs no address of its own.
void find_uppers(HostDevice& device) {
  constexpr std::string_view upper = "upper_";
  for (const auto& interface : entry_names(device.function.folder / "net")) {
    for (const auto& name : entry_names(device.function.folder / "net" / interface)) {
      if (name.starts_with(upper)) {
        device.users.push_back({0, "part of " + name.substr(upper.size()), interface});
      }
    }
  }
}

}  // namespace

std::vector<std::string> vfio_nodes(const fs::path& folder) {
  std::vector<std::string> nodes;
  if (const auto group = link_name(folder / "iommu_group"); !group.empty()) {
    nodes.push_back("/dev/vfio/" + group);
  }
  for (const auto& node : entry_names(folder / "vfio-dev")) { nodes.push_back("/dev/vfio/devices/" + node); }
  return nodes;
}

void find_users(const fs::path& root, std::vector<HostDevice>& devices) {
  DevicesByName by_node, by_interface;
  for (auto& device : devices) {
    device.users.clear();
    for (const auto& node : nodes_of(root, device)) { by_node[node].push_back(&device); }
    for (const auto& interface : entry_names(device.function.folder / "net")) {
      by_interface[interface].push_back(&device);
    }
  }
  if (!by_interface.empty()) { find_routes(root, by_interface); }
  if (!by_node.empty()) {
    find_open_files(root, by_node);
    find_mounts(root, by_node);
    find_swap(root, by_node);
  }
  for (auto& device : devices) {
    find_holders(root, device);
    find_uppers(device);
  }
}

}  // namespace virtrain::vmctl
