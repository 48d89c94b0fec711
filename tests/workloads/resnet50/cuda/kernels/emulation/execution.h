#pragma once

#include <cuda_runtime_api.h>
#include <math.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <typeindex>
#include <utility>

#include "workloads/resnet50/cuda/kernels/kernels.h"

/// The part of CUDA that our kernels use, on the CPU: included before each .cu file, which is then compiled
/// as C++. CUDA's own headers give the types and turn __global__ and __device__ into nothing. What nvcc would
/// bring, and the services in kernels/device.cuh, are here.
///
/// The threads of a block are fibers that change places only at a barrier, the blocks of a grid run one after
/// another, both in another order each time: a result that depends on the order comes out different, or NaN,
/// which shared memory is full of before a block. Memory is guarded by AddressSanitizer.

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
void __syncthreads(int line = __builtin_LINE());  // NOLINT
inline void __threadfence() {}                    // NOLINT
inline int atomicAdd(int* value, int more) {      // NOLINT
  return std::exchange(*value, *value + more);
}
inline float __ldcg(const float* value) {  // NOLINT
  return *value;
}
using std::min;
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace virtrain::test::emulation {

/// Runs `thread` for each thread of the grid. Throws std::logic_error, which names the kernel, where a GPU
/// would refuse the launch, or could hang or compute anything: a barrier that not all threads of a block
/// reach.
void run(const char* kernel, dim3 blocks, unsigned threads, const std::function<void()>& thread);

/// This block's memory of that type.
void* shared_memory(std::type_index type, std::size_t bytes);

}  // namespace virtrain::test::emulation

namespace virtrain::resnet50::cuda {

template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), dim3 blocks, unsigned threads, Stream /*stream*/,
            std::type_identity_t<Parameters>... arguments) {
  test::emulation::run(name, blocks, threads, [&] { kernel(arguments...); });
}

/// A few, so that sums are added up in batches.
template <typename... Parameters>
int resident_blocks(void (* /*kernel*/)(Parameters...), unsigned /*threads*/) {
  return 40;
}

template <typename T>
T& block_shared() {
  return *static_cast<T*>(test::emulation::shared_memory(typeid(T), sizeof(T)));
}

std::uint64_t global_nanoseconds();

}  // namespace virtrain::resnet50::cuda
