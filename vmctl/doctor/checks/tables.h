#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "vmctl/api/host_mode.h"
#include "vmctl/doctor/findings/device_host.h"

// The tables of checks by topic, a file each.

namespace virtrain::vmctl {

/// This host, in one mode.
struct HostInMode {
  const Inventory& inventory;
  HostMode mode;
};
/// Checks that every scenario depends on.
std::span<const Check<HostInMode>> host_checks();

using DeviceCheck = Check<DeviceHost>;

std::span<const DeviceCheck> iommu_checks();
std::span<const DeviceCheck> version_checks();
std::span<const DeviceCheck> driver_checks();  ///< drivers, users, resets, leaks
std::span<const DeviceCheck> link_checks();    ///< PCIe links, NUMA nodes, RDMA
std::span<const DeviceCheck> memory_checks();
std::span<const DeviceCheck> vgpu_checks();    ///< vGPUs and MIG
std::span<const DeviceCheck> health_checks();  ///< of GPUs and their fabric
std::span<const DeviceCheck> machine_checks();

/// All of devices, in the order they are shown.
std::span<const DeviceCheck> device_checks();

// Helpers that the tables of checks share.
using Words = std::vector<std::string>;

inline constexpr const char* when_always = "always";
template <typename Subject>
bool always(const Subject& /*subject*/) {
  return true;
}

inline constexpr const char* when_gpus = "there are GPUs";
inline bool has_gpus(const DeviceHost& host) {
  return !host.gpus().empty();
}

inline constexpr const char* when_devices = "there are GPUs, or a scenario names devices";
inline bool has_devices(const DeviceHost& host) {
  return !host.devices().empty();
}

inline constexpr const char* when_rebound = "a device is to leave its driver for a VM";
inline bool has_rebound(const DeviceHost& host) {
  return !host.rebound().empty();
}

/// One-value file below the host's root; empty if it cannot be read.
inline std::string value(const DeviceHost& host, const std::filesystem::path& file) {
  return read_value(host.root / file).value_or("");
}

inline bool exists(const DeviceHost& host, const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(host.root / file, ignored);
}

/// Names in a folder below the host's root, in order.
inline Words names_in(const DeviceHost& host, const std::filesystem::path& folder) {
  return entry_names(host.root / folder);
}

inline std::filesystem::path sysfs(const DeviceHost& host, const std::string& address) {
  return host.root / "sys/bus/pci/devices" / address;
}

/// Whether VFIO accepts the function in a group as it is: bridges, and the host's own without a driver.
inline bool is_bridge(const DeviceHost& host, const std::string& address) {
  const auto class_code = read_value(sysfs(host, address) / "class").value_or("");
  return class_code.starts_with("0x0604") ||
         (class_code.starts_with("0x0600") && !std::filesystem::exists(sysfs(host, address) / "driver"));
}

/// Process ids whose name (at most 15 characters, as /proc says it) is one of these.
inline Words processes_named(const DeviceHost& host, const Words& names) {
  Words pids;
  for (const auto& pid : names_in(host, "proc")) {
    if (pid.find_first_not_of("0123456789") == std::string::npos &&
        std::find(names.begin(), names.end(), value(host, "proc/" + pid + "/comm")) != names.end()) {
      pids.push_back(pid);
    }
  }
  return pids;
}

/// Lines of the kernel's log that hold all of these.
inline Words log_lines(const DeviceHost& host, const Words& parts) {
  Words found;
  for (auto& line : split(host.words.kernel_log.value_or(""), '\n')) {
    if (std::all_of(parts.begin(), parts.end(),
                    [&](const auto& part) { return line.find(part) != std::string::npos; })) {
      found.push_back(std::move(line));
    }
  }
  return found;
}

/// The answer for offenders: well where there are none.
inline CheckAnswer none_of(const Words& offenders, const std::string& well, const std::string& fix) {
  if (offenders.empty()) { return {well}; }
  return {join(offenders, "; "), fix};
}

/// The devices that `describe` has words for, with their addresses before them.
template <typename Describe>
Words each(const std::vector<const HostDevice*>& devices, Describe&& describe) {
  Words found;
  for (const auto* device : devices) {
    if (const std::string words = describe(*device); !words.empty()) {
      found.push_back(fmt::format("{} {}", device->function.address, words));
    }
  }
  return found;
}

/// As each(), of what nvidia-smi says of them.
template <typename Describe>
Words each_report(const std::vector<const HostDevice*>& devices, const DeviceHost& host,
                  Describe&& describe) {
  return each(devices, [&](const HostDevice& device) -> std::string {
    const auto* report = host.report_on(device);
    return report == nullptr ? "" : describe(*report);
  });
}

/// Whether nvidia-smi says so of one of them.
template <typename Predicate>
bool any_report(const std::vector<const HostDevice*>& devices, const DeviceHost& host, Predicate&& says_so) {
  return std::any_of(devices.begin(), devices.end(), [&](const HostDevice* device) {
    const auto* report = host.report_on(*device);
    return report != nullptr && says_so(*report);
  });
}

}  // namespace virtrain::vmctl
