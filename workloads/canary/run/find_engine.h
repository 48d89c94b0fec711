#pragma once

#include <filesystem>
#include <memory>

#include "common/system/locked_page.h"
#include "workloads/canary/dma_engine.h"

namespace virtrain::canary {

/// That of the first function below root/sys/bus/pci/devices whose engine is known, an edu (told to act as a
/// bus master) or a GPU of NVIDIA's; nothing where there is none. `own`: the page of this process that it may
/// be told to read, which must outlive it. Throws Error.
std::unique_ptr<DmaEngine> find_engine(const std::filesystem::path& root, const LockedPage& own,
                                       const BusAddress& bus_address = &LockedPage::physical_address);

}  // namespace virtrain::canary
