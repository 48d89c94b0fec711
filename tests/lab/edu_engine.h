#pragma once

#include <filesystem>
#include <memory>

#include "workloads/canary/dma_engine.h"

namespace virtrain::canary {

/// The engine of QEMU's device for teaching, "edu" (docs/specs/edu.rst of QEMU), which it makes a bus master:
/// it copies at most 4 KiB between a buffer of its own and a bus address. Nothing where the PCI function with
/// that folder in sysfs is none.
std::unique_ptr<DmaEngine> edu_engine(const std::filesystem::path& function, const BusAddress& bus_address);

}  // namespace virtrain::canary
