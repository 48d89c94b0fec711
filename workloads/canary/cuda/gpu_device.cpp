#include "workloads/canary/cuda/gpu_device.h"

#include <fmt/format.h>

namespace virtrain::canary {

int find_gpu(const std::string& address) {
  int gpu = 0;
  check_gpu("find GPU " + address + " by CUDA", cudaDeviceGetByPCIBusId(&gpu, address.c_str()));
  return gpu;
}

std::string hang_words(std::chrono::milliseconds limit) {
  return fmt::format(
      "the GPU did not finish within {} s: it hangs, or is gone (nvidia-smi and the kernel's log say more)",
      std::chrono::ceil<std::chrono::seconds>(limit).count());
}

GpuMemory try_to_allocate(std::uint64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    ignore_gpu(status);
    return nullptr;
  }
  check_gpu("allocate the GPU's memory", status);
  return GpuMemory(static_cast<std::byte*>(memory));
}

}  // namespace virtrain::canary
