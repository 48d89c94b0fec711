#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "vmctl/doctor.h"
#include "vmctl/inventory.h"

namespace virtrain::vmctl {

/// What the checks of devices look at: a host, or the recorded tree of one.
struct DeviceHost {
  std::filesystem::path root = "/";
  Inventory inventory;
  std::vector<std::string> leased = {};  ///< addresses that a live run holds

  std::vector<const HostDevice*> gpus() const;
};

/// What a check found, and what to do about it.
struct CheckAnswer {
  std::string found;
  std::string fix = {};  ///< empty: all is well
};

/// One row of the table of checks.
struct DeviceCheck {
  const char* id;
  Severity severity;
  const char* applies_when;  ///< in words
  bool (*applies)(const DeviceHost& host);
  CheckAnswer (*look)(const DeviceHost& host);
};

/// All of them, in the order they are shown.
std::span<const DeviceCheck> device_checks();

/// The answer of one check; skipped, with the words of `applies_when`, where it does not apply.
Finding examine(const DeviceCheck& check, const DeviceHost& host);

}  // namespace virtrain::vmctl
