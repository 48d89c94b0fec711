#pragma once

#include <functional>
#include <string>

#include "workloads/common/gpu/nvml.h"

namespace virtrain {

/// Throws Error(busy) where others compute on the GPU that this process is about to measure. Processes that
/// only hold a context (MPS's server, a notebook that waits) are no reason, nor is work of a process that has
/// just ended: somebody else must be there, and the GPU busy whenever it is asked, for a second and a half.
/// `pause` lasts until the next time to `ask`. Before any work of our own.
void refuse_occupied_gpu(const std::string& pci_address, const std::function<GpuUse()>& ask,
                         const std::function<void()>& pause);

/// The same, of the GPU itself. Where NVML is missing or does not tell (MIG), nothing is refused.
void refuse_occupied_gpu(const std::string& pci_address);

}  // namespace virtrain
