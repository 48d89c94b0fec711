#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "workloads/canary/dma_engine.h"
#include "workloads/canary/memory.h"

namespace virtrain::canary {

/// Memory that a process maps to have a pointer to a page of the bus, as a GPU's driver wants one.
struct BusView {
  const LockedPage* own = nullptr;    ///< of this process; the kernel shows nobody its memory as a file
  std::uint64_t own_address = 0;      ///< the page's
  std::vector<MemoryRegion> regions;  ///< of this node's devices, each with its file
  std::filesystem::path rest =
      "/dev/mem";  ///< by bus address: in a guest without a virtual IOMMU the physical
};

inline constexpr std::chrono::seconds gpu_read_limit{30};

/// The NVIDIA GPU at that PCI address: a kernel of ours loads the page, so the GPU itself reads the bus, as
/// in GPUDirect. The CPU touches none of it. Each read is a child's, for an error of CUDA's lasts as long as
/// its process, and nothing of CUDA may be called in this process before. A page that the kernel does not
/// map, or the driver does not register, is `refused`; a read that the GPU breaks off brings zeros. Throws
/// Error(host_unable) in builds without CUDA.
std::unique_ptr<DmaEngine> gpu_engine(const std::string& address, BusView bus,
                                      std::chrono::milliseconds limit = gpu_read_limit);

}  // namespace virtrain::canary
