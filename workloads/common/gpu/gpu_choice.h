#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workloads/common/gpu/nvml.h"
#include "workloads/common/program.h"

namespace virtrain {

/// The GPU of a rank where `visible` GPUs are counted from 0: the first rank of a host takes `first`, each
/// further rank the next. Where one is visible it is every rank's, for each may have been shown another.
/// Throws Error(host_unable) where they do not suffice.
int gpu_of_rank(const LocalRank& local, int first, int visible);

/// Words that tell GPUs of different machines apart: virtual GPUs of VMs that were cloned have one UUID, one
/// PCI address and one host's name, but each VM's kernel has started by itself. `boot` is that start's
/// identity; where it is empty, the host's name stands for it.
std::string gpu_identity(const std::string& uuid, const std::string& pci_address, const std::string& host,
                         const std::string& boot);

/// `gpus` are those that the ranks have taken, by rank, in any words that tell them apart. Throws
/// Error(host_unable) where two are one. Neither function does where NCCL_HOSTID is set: NCCL lets two ranks
/// use one GPU only where each has a NCCL_HOSTID of its own, a test that the data is right.
void refuse_shared_gpu(const std::vector<std::string>& gpus);

/// Throws Error(busy) where others compute on the GPU that this process is about to measure. Processes that
/// only hold a context (MPS's server, a notebook that waits) are no reason, nor is work of a process that has
/// just ended: somebody else must be there, and the GPU busy whenever it is asked, for a second and a half.
/// `pause` lasts until the next time to `ask`. Before any work of our own.
void refuse_occupied_gpu(const std::string& pci_address, const std::function<GpuUse()>& ask,
                         const std::function<void()>& pause);

/// The same, of the GPU itself. Where NVML is missing or does not tell (MIG), nothing is refused.
void refuse_occupied_gpu(const std::string& pci_address);

}  // namespace virtrain
