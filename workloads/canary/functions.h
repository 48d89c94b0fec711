#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/model/canary_messages.h"

namespace virtrain::canary {

/// All below root/sys/bus/pci/devices whose model begins with none of `known`. Regions are opened and not
/// mapped: reading a register may change a device.
Functions see_functions(const std::filesystem::path& root, const std::vector<std::string>& known);

}  // namespace virtrain::canary
