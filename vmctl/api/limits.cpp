#include "vmctl/api/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

constexpr int shared_mode = 1;
constexpr const char* symptom =
    "without it CUDA fails in the guest with error 802 (system not yet initialized)";
constexpr const char* whole_board =
    "or assign the whole board: select all of its GPUs and NVSwitches by address, for one VM";

std::size_t count_of_class(const std::vector<HostDevice>& devices, DeviceClass device_class) {
  return static_cast<std::size_t>(std::ranges::count_if(
      devices, [&](const auto& device) { return device.device_class == device_class; }));
}

/// GPUs that hang on the board's switches; all where NVLinks are not known.
bool is_of_board(const Inventory& inventory, const std::vector<std::string>& nvlink_peers) {
  const bool is_known =
      std::ranges::any_of(inventory.devices, [](const auto& device) { return !device.nvlink_peers.empty(); });
  return !is_known || !nvlink_peers.empty();
}

/// In order.
std::vector<std::string> whole_gpus(const Inventory& inventory, const std::vector<PlacedDevice>& devices) {
  std::vector<std::string> gpus;
  for (const auto& device : devices) {
    if (device.device_class == DeviceClass::gpu && device.grant.kind == GrantKind::passthrough &&
        is_of_board(inventory, device.nvlink_peers)) {
      gpus.push_back(device.grant.address);
    }
  }
  std::ranges::sort(gpus);
  return gpus;
}

std::string fitting_partitions(const Inventory& inventory, std::size_t gpus) {
  std::vector<std::string> fitting;
  for (const auto& partition : inventory.fabric_partitions) {
    if (partition.gpus.size() != gpus) { continue; }
    fitting.push_back(fmt::format("{} ({}{})", partition.id, join(partition.gpus, " "),
                                  partition.is_active ? ", active" : ""));
  }
  return fitting.empty() ? fmt::format("no partition has {} GPUs", gpus)
                         : "partitions that fit: " + join(fitting, ", ");
}

/// The Fabric Manager's partitions of a board of eight GPUs, which most boards have (its user guide, "Shared
/// NVSwitch"): one of 8, two of 4, four of 2, eight of 1.
std::string partitions_of_board(const Inventory& inventory, std::size_t gpus) {
  constexpr std::size_t of_board = 8;
  const auto on_board = count_of_class(inventory.devices, DeviceClass::gpu);
  if (on_board != of_board || gpus == 0) {
    return fmt::format("see the partitions of {} with fmpm -l", counted(gpus, "GPU"));
  }
  if (of_board % gpus != 0) {
    return fmt::format("no partition has {} GPUs: a board of 8 is divided into 1 × 8, 2 × 4, 4 × 2 or 8 × 1",
                       gpus);
  }
  return fmt::format("a board of 8 has {} of {}, which fmpm -l shows", counted(of_board / gpus, "partition"),
                     counted(gpus, "GPU"));
}

std::string lack_of_partition(const Inventory& inventory, const std::vector<std::string>& gpus) {
  if (inventory.fabric_mode == shared_mode) {
    return fmt::format(
        "no active partition has just the GPUs {}, and {}; {} (activate one with fmpm -a ID and select its "
        "GPUs by address, {})",
        join(gpus, " "), symptom, fitting_partitions(inventory, gpus.size()), whole_board);
  }
  return fmt::format(
      "the host keeps the NVSwitches of {}, and a VM with {} of the board needs an active partition of the "
      "Fabric Manager: {}{} (set FABRIC_MODE=1 in fabricmanager.cfg and restart it; {}; activate one for "
      "each "
      "VM with fmpm -a ID; {})",
      join(gpus, " "), counted(gpus.size(), "GPU"), symptom,
      inventory.fabric_mode ? fmt::format("; FABRIC_MODE is {} here", *inventory.fabric_mode) : "",
      partitions_of_board(inventory, gpus.size()), whole_board);
}

}  // namespace

bool has_nvlink_switches(const std::vector<HostDevice>& devices) {
  constexpr std::size_t most_bridged = 4;  // without a switch: bridges, and meshes of up to eight GPUs
  return std::ranges::any_of(devices, [](const auto& device) {
    return device.device_class == DeviceClass::nvswitch || device.nvlink_peers.size() > most_bridged;
  });
}

FabricLack fabric_lack(const Inventory& inventory, const std::vector<PlacedDevice>& devices) {
  const auto switches = count_of_class(inventory.devices, DeviceClass::nvswitch);
  const auto gpus = whole_gpus(inventory, devices);
  if (!has_nvlink_switches(inventory.devices)) { return {}; }
  const auto lent = static_cast<std::size_t>(std::ranges::count_if(
      devices, [](const auto& device) { return device.device_class == DeviceClass::nvswitch; }));
  if (lent > 0) {
    const auto on_board =
        static_cast<std::size_t>(std::ranges::count_if(inventory.devices, [&](const auto& device) {
          return device.device_class == DeviceClass::gpu && is_of_board(inventory, device.nvlink_peers);
        }));
    if (lent == switches && gpus.size() == on_board) { return {}; }
    return {fmt::format("a VM gets {} of {} and {}: NVSwitches go to one VM together with all GPUs of "
                        "their board",
                        counted(lent, "NVSwitch", "NVSwitches"), switches, counted(gpus.size(), "GPU")),
            true};
  }
  const bool is_joined = std::ranges::any_of(inventory.fabric_partitions, [&](const auto& partition) {
    return partition.is_active && partition.gpus == gpus;
  });
  if (gpus.size() < 2 || (inventory.fabric_mode == shared_mode && is_joined)) { return {}; }
  return {lack_of_partition(inventory, gpus), inventory.fabric_mode.has_value()};
}

std::vector<std::vector<std::string>> active_partitions(const Inventory& inventory) {
  std::vector<std::vector<std::string>> active;
  for (const auto& partition : inventory.fabric_partitions) {
    if (partition.is_active) { active.push_back(partition.gpus); }
  }
  return active;
}

bool is_since(const std::string& version, int major, int minor) {
  const auto start = version.find_first_of("0123456789");
  if (start == std::string::npos) { return true; }
  const auto numbers = split(version.substr(start), '.');
  const std::pair found{std::atoi(numbers[0].c_str()),
                        numbers.size() > 1 ? std::atoi(numbers[1].c_str()) : 0};
  return found >= std::pair{major, minor};
}

}  // namespace virtrain::vmctl
