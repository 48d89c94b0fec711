#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace virtrain::canary {

/// A PCI function that this node sees, and which of its memory regions it may write to.
struct SeenFunction {
  std::string address;  ///< "0000:17:00.0"
  std::string model;    ///< "0x10de:0x20f1"
  std::vector<std::string>
      opened;  ///< "resource0": files of sysfs that could be opened for reading and writing
};

struct SeenFunctions {
  std::size_t total = 0;             ///< those of known models too
  std::vector<SeenFunction> others;  ///< those of other models: what could be opened first, then by address
  bool control = false;  ///< a function that was planted in a tree of files was seen, and its region opened
};

/// All below root/sys/bus/pci/devices whose model begins with none of `known`. Regions are opened and not
/// mapped: reading a register may change a device.
SeenFunctions see_functions(const std::filesystem::path& root, const std::vector<std::string>& known);

}  // namespace virtrain::canary
