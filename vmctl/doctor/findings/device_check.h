#pragma once

#include <optional>
#include <string>

#include "vmctl/api/finding.h"
#include "vmctl/doctor/findings/device_host.h"

namespace virtrain::vmctl {

/// What a check found, and what to do about it.
struct CheckAnswer {
  std::string found;
  std::string fix = {};                   ///< empty: all is well
  std::optional<Severity> severity = {};  ///< where it depends on what was found or wanted
};

/// One row of the table of checks.
struct DeviceCheck {
  const char* id;
  Severity severity;
  const char* applies_when;  ///< in words
  bool (*applies)(const DeviceHost& host);
  CheckAnswer (*look)(const DeviceHost& host);
};

/// The answer of one check; skipped, with the words of `applies_when`, where it does not apply.
Finding examine(const DeviceCheck& check, const DeviceHost& host);

}  // namespace virtrain::vmctl
