#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace virtrain {

/// Throws Error(host_unable) in CUDA's words unless the call went well.
void check_cuda(cudaError_t status, const std::string& operation);

/// Makes it the current GPU; Error(host_unable) where there is none of that number.
void use_gpu(int gpu);
/// Makes the GPU of this rank (gpu_of_rank.h) the current one, and returns its number.
int use_gpu_of_rank(int first);

/// Memory of the current GPU, or page-locked memory of the host, freed with its owner.
struct FreeDevice {
  void operator()(std::byte* pointer) const { cudaFree(pointer); }
};
struct FreePinned {
  void operator()(std::byte* pointer) const { cudaFreeHost(pointer); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDevice>;
using PinnedMemory = std::unique_ptr<std::byte, FreePinned>;
DeviceMemory allocate_device(std::size_t bytes);
PinnedMemory allocate_pinned(std::size_t bytes);

}  // namespace virtrain
