#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/device.h"

namespace virtrain::vmctl {

/// By PCI address. Text that is no such XML gives nothing.
std::map<std::string, GpuReport> read_gpu_reports(const std::string& xml);

}  // namespace virtrain::vmctl
