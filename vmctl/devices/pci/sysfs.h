#pragma once

#include <chrono>
#include <filesystem>
#include <string>

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

}  // namespace virtrain::vmctl
