#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "common/system/locked_page.h"
#include "workloads/canary/dma_engine.h"

namespace virtrain::canary {

/// The engine of the PCI function with that folder in sysfs; nothing where it is of another model. Throws
/// Error.
using EngineMaker = std::function<std::unique_ptr<DmaEngine>(const std::filesystem::path& function,
                                                             const BusAddress& bus_address)>;

/// That of the first function below root/sys/bus/pci/devices that is a GPU of NVIDIA's or that `others` makes
/// an engine of; nothing where there is none. `own`: the page of this process that it may be told to read,
/// which must outlive it. Throws Error.
std::unique_ptr<DmaEngine> find_engine(const std::filesystem::path& root, const LockedPage& own,
                                       const EngineMaker& others,
                                       const BusAddress& bus_address = &LockedPage::physical_address);

}  // namespace virtrain::canary
