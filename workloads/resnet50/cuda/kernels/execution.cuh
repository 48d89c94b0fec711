#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/kernels/kernels.h"

/// Services that a kernel needs from the machine. nvcc compiles these; the tests run the same kernels without
/// a GPU and bring their own (tests/workloads/resnet50/cuda/kernels/emulation), which is why kernels are
/// started by `launch` and name their shared memory by a type.
#ifdef __CUDACC__
namespace virtrain::resnet50::cuda {

/// Puts `kernel` on the stream. Throws Error, which names it, where it cannot be launched.
template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), dim3 blocks, unsigned threads, Stream stream,
            std::type_identity_t<Parameters>... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) { check_gpu(std::string("launch ") + name, status); }
}

/// Blocks of this kernel that the GPU holds at once.
template <typename... Parameters>
int resident_blocks(void (*kernel)(Parameters...), unsigned threads) {
  int gpu = 0, multiprocessors = 0, blocks = 0;
  check_gpu("find the GPU", cudaGetDevice(&gpu));
  check_gpu("count multiprocessors",
            cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu));
  check_gpu("count resident blocks",
            cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), 0));
  return multiprocessors * blocks;
}

/// The block's one T in shared memory, not initialized: whoever asks for the same type gets the same one.
template <typename T>
__device__ T& block_shared() {
  __shared__ T memory;
  return memory;
}

/// The GPU's clock: since an epoch of its own, in steps of up to a microsecond.
__device__ inline std::uint64_t global_nanoseconds() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

}  // namespace virtrain::resnet50::cuda
#endif
