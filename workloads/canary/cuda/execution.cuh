#pragma once

#include <string>
#include <type_traits>

#include "workloads/canary/cuda/kernels.h"
#include "workloads/common/cuda/gpu_errors.h"

/// Services that the kernels need from the GPU. nvcc compiles this; the tests run the same kernels without a
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

// A name for each register: PTX has no arrays of them.
// clang-format off
#define VIRTRAIN_TEN(with, t) \
  with(t##0) with(t##1) with(t##2) with(t##3) with(t##4) with(t##5) with(t##6) with(t##7) with(t##8) with(t##9)
#define VIRTRAIN_REGISTERS(with) \
  VIRTRAIN_TEN(with, 1) VIRTRAIN_TEN(with, 2) VIRTRAIN_TEN(with, 3) VIRTRAIN_TEN(with, 4) \
  VIRTRAIN_TEN(with, 5) VIRTRAIN_TEN(with, 6) VIRTRAIN_TEN(with, 7) VIRTRAIN_TEN(with, 8) \
  VIRTRAIN_TEN(with, 9) VIRTRAIN_TEN(with, 10) VIRTRAIN_TEN(with, 11)
#define VIRTRAIN_DECLARE(n) ".reg .b64 r" #n ";\n\t"
#define VIRTRAIN_LOAD(n) "ld.volatile.global.u64 r" #n ", [%0];\n\t"
#define VIRTRAIN_STORE_IF(n) "@p st.volatile.global.u64 [%0], r" #n ";\n\t"
#define VIRTRAIN_LOAD_IF(n) "@p ld.volatile.global.u64 r" #n ", [%1];\n\t"
#define VIRTRAIN_COUNT(n) "setp.eq.u64 q, r" #n ", %2;\n\t@q add.u32 c, c, 1;\n\t"

/// All registers hold the word at once: each would be stored if the address were 0, which only the compiler
/// does not know.
__device__ inline void leave_in_registers(const std::uint64_t* word) {
  asm volatile("{\n\t.reg .pred p;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_DECLARE)
               "setp.eq.u64 p, %0, 0;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_LOAD)
               VIRTRAIN_REGISTERS(VIRTRAIN_STORE_IF)
               "}"
               :: "l"(word) : "memory");
}

/// How many registers hold what is wanted although this kernel has written none: each would be loaded if what
/// is wanted were 0, so that the compiler keeps a register for it; else it holds what was there before.
__device__ inline unsigned count_in_registers(const std::uint64_t* word, std::uint64_t wanted) {
  unsigned count;
  asm volatile("{\n\t.reg .pred p, q;\n\t.reg .u32 c;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_DECLARE)
               "setp.eq.u64 p, %2, 0;\n\tmov.u32 c, 0;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_LOAD_IF)
               VIRTRAIN_REGISTERS(VIRTRAIN_COUNT)
               "mov.u32 %0, c;\n\t}"
               : "=r"(count) : "l"(word), "l"(wanted) : "memory");
  return count;
}
// clang-format on

#undef VIRTRAIN_TEN
#undef VIRTRAIN_REGISTERS
#undef VIRTRAIN_DECLARE
#undef VIRTRAIN_LOAD
#undef VIRTRAIN_STORE_IF
#undef VIRTRAIN_LOAD_IF
#undef VIRTRAIN_COUNT

}  // namespace virtrain::canary
#endif
