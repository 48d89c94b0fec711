#pragma once

#include <string>
#include <type_traits>

#include "workloads/canary/cuda/kernels.h"
#include "workloads/common/cuda/gpu_errors.h"

/// What the kernels ask of the GPU under them. nvcc compiles this; the tests run the same kernels without a
/// GPU and bring their own (tests/workloads/canary/cuda/emulation.h).
#ifdef __CUDACC__
namespace virtrain::canary {

/// Starts a kernel whose blocks have that much shared memory. Throws Error, which names it.
template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            unsigned shared_bytes, std::type_identity_t<Parameters>... arguments) {
  const std::string operation = std::string("launch ") + name;
  if (shared_bytes > 0) {
    check_gpu(operation, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(shared_bytes)));
  }
  kernel<<<blocks, threads, shared_bytes>>>(arguments...);
  check_gpu(operation, cudaGetLastError());
  check_gpu(std::string("wait for ") + name, cudaDeviceSynchronize());
}

/// Loads a kernel's code, for which there is no room once all memory is taken.
template <typename... Parameters>
void load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  check_gpu("load a kernel", cudaFuncGetAttributes(&attributes, kernel));
}

/// The block's shared memory as the last block on this multiprocessor left it.
__device__ inline volatile Word* shared_words() {
  extern __shared__ Word words[];
  return words;
}

/// The number of the multiprocessor that runs this block.
__device__ inline unsigned multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

}  // namespace virtrain::canary
#endif
