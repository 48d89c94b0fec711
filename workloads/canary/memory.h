#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/model/canary_messages.h"

namespace virtrain::canary {

/// A memory region of a PCI function, and where it is on the bus.
struct MemoryRegion {
  std::filesystem::path file;  ///< "…/resource2"
  std::uint64_t address = 0, bytes = 0;
};
/// Those of a function's folder in sysfs that are prefetchable; the others are registers.
std::vector<MemoryRegion> memory_regions(const std::filesystem::path& function);

/// Where a PCI function's memory can be written and read: the disks of an NVMe controller's namespaces
/// ("/dev/nvme0n1"), else its prefetchable memory regions in sysfs ("…/resource2"); those that are not
/// prefetchable are registers. From "/" or a recorded tree; empty: it has none.
std::vector<std::filesystem::path> device_memory(const std::filesystem::path& root,
                                                 const std::string& address);

/// Whether a disk has something of its owner's in its first or last MiB, where partition tables and file
/// systems begin: anything but zeros and canaries. Throws Error.
bool holds_data(const std::filesystem::path& disk);

/// Fills a file, a disk or a device's memory in sysfs from its start with the canary, to its end if there is
/// time; behind each copy stands the number of its page, so that what is found elsewhere says where it was
/// written. Throws Error.
Filled fill_memory(const std::filesystem::path& path, const std::string& canary, std::chrono::seconds time);

/// All below root/sys/bus/pci/devices whose model begins with none of `known`. Regions are opened and not
/// mapped: reading a register may change a device.
Functions see_functions(const std::filesystem::path& root, const std::vector<std::string>& known);

}  // namespace virtrain::canary
