#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/evidence.h"
#include "vmctl/api/pci.h"
#include "vmctl/devices/host_device.h"

namespace virtrain::vmctl {

/// How long the kernel may take to let a driver go, or to take a device up.
inline constexpr std::chrono::seconds sysfs_deadline{30};

/// Writes a word to a file of sysfs in a process of its own, for such a write can block for ever: a driver
/// does not let go of a device in use. Error(io) with the kernel's word; Error(timeout) past the deadline,
/// when the process is left behind (nothing ends it before the kernel does).
void write_sysfs(const std::filesystem::path& file, const std::string& text,
                 std::chrono::milliseconds deadline = sysfs_deadline);

/// Whether a file is there; false too where nobody may look.
bool is_there(const std::filesystem::path& path);

/// Folder of a PCI function, whether or not it exists.
std::filesystem::path pci_folder(const std::string& address);
/// Driver that the function is bound to; empty: none.
std::string bound_driver(const std::string& address);

/// A function's configuration space as sysfs gives it: 4,096 bytes for root, 64 for others; empty if it
/// cannot be read at all.
std::string read_pci_config(const PciFunction& function);

/// Access Control Services of a bridge (PCI Express base specification, 7.7.8), the bits that send what one
/// device below it writes to another through the IOMMU.
struct AcsControl {
  bool request_redirect = false;     ///< RR
  bool completion_redirect = false;  ///< CR
  bool upstream_forwarding = false;  ///< UF
  bool direct_translated = false;    ///< DT: what a device translated by ATS goes straight nevertheless
  bool can_direct_translated = false;
};
/// Reads the ACS capability from a configuration space; nothing where it has none, or ends before it.
std::optional<AcsControl> acs_control(const std::string& config);

/// Whether Address Translation Services (7.8.8 there) are enabled; nothing where the device has none.
std::optional<bool> ats_enabled(const std::string& config);

/// Whether a device may write with relaxed ordering (device control, 7.5.3.4 there); nothing where that is
/// not ours to read.
std::optional<bool> relaxed_ordering(const std::string& config);

/// The highest speed that somebody lets a link run at (link control 2, 7.5.3.19 there), in GT/s; nothing
/// where that is not ours to read.
std::optional<double> target_link_speed(const std::string& config);

/// Reads the kernel's error counters, also while a VM has the device; nothing where the kernel does not
/// count.
std::optional<LinkErrors> read_link_errors(const PciFunction& function);

/// ACS of the bridges above devices, by the bridge's address. A bridge without it is in its devices' IOMMU
/// group, and one whose configuration space is not ours to read (root's) is left out.
std::map<std::string, AcsControl> acs_above(const std::filesystem::path& root,
                                            const std::vector<const HostDevice*>& devices);

/// Bridges that let what is below them talk past the IOMMU, "0000:16:02.0 without RR UF" each.
std::vector<std::string> acs_gaps(const std::map<std::string, AcsControl>& bridges);

/// Whether VFIO lends devices though interrupts are not remapped.
bool allows_unsafe_interrupts(const std::filesystem::path& root);

}  // namespace virtrain::vmctl
