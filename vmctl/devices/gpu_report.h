#pragma once

#include <map>
#include <string>

#include "vmctl/api/device.h"

namespace virtrain::vmctl {

/// By PCI address. Text that is no such XML gives nothing.
std::map<std::string, GpuReport> read_gpu_reports(const std::string& xml);

}  // namespace virtrain::vmctl
