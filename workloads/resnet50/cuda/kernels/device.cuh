#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/error.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/kernels/arithmetic.h"
#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/cuda/kernels/numeric.h"

/// Code that all kernels share: packs of eight elements, conversions, sizes of launches.
namespace virtrain::resnet50::cuda {

// Services that a kernel needs from the machine. nvcc compiles these; the tests run the same kernels without
// a GPU and bring their own (tests/workloads/resnet50/cuda/kernels/emulation), which is why kernels are
// started by `launch` and name their shared memory by a type.
#ifdef __CUDACC__

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
#endif

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

struct Floats {
  float at[pack_size];
};

/// Eight elements as they lie in memory: one or two loads of 16 bytes.
template <typename T>
struct alignas(16) Pack {
  T at[pack_size];
};

template <typename T>
__device__ Pack<T> load_pack(const void* base, std::int64_t pack) {
  return static_cast<const Pack<T>*>(base)[pack];
}

template <typename T>
__device__ Floats to_floats(const Pack<T>& raw) {
  Floats values;
#pragma unroll
  for (int i = 0; i < pack_size; ++i) { values.at[i] = to_float(raw.at[i]); }
  return values;
}

template <typename T>
__device__ Floats load(const void* base, std::int64_t pack) {
  return to_floats(load_pack<T>(base, pack));
}

template <typename T>
__device__ void store(void* base, std::int64_t pack, const Floats& values) {
  Pack<T> raw;
#pragma unroll
  for (int i = 0; i < pack_size; ++i) { raw.at[i] = from_float<T>(values.at[i]); }
  static_cast<Pack<T>*>(base)[pack] = raw;
}

__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline std::int64_t thread_count() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

inline constexpr int block_threads = 256;

/// Blocks so that each of `work` items has a thread.
inline unsigned blocks_for(std::int64_t work) {
  return static_cast<unsigned>((work + block_threads - 1) / block_threads);
}

/// So many loads a thread has under way before it uses the first: fewer, and memory waits for the threads
/// (Little's law: 3 MB under way on an H200).
inline constexpr int loads_in_flight = 4;

/// use(at, load(at)) for at = first, first + step, … below end: `count` of them, all loaded before the first
/// is used, or fewer.
template <int count, typename Load, typename Use>
__device__ void use_loaded(int first, int step, int end, const Load& load, const Use& use) {
  if (first + (count - 1) * step < end) {
    decltype(load(first)) loaded[count];
#pragma unroll
    for (int i = 0; i < count; ++i) { loaded[i] = load(first + i * step); }
    asm volatile("" ::: "memory");  // else the compiler moves each load to where it is used
#pragma unroll
    for (int i = 0; i < count; ++i) { use(first + i * step, loaded[i]); }
    return;
  }
  for (int at = first; at < end; at += step) { use(at, load(at)); }
}

/// The same for a block's part of `packs` that lie side by side, `count` for each thread.
template <int count, typename Load, typename Use>
__device__ void use_packs(std::int64_t packs, const Load& load, const Use& use) {
  const int first = static_cast<int>(blockIdx.x) * count * block_threads + static_cast<int>(threadIdx.x);
  use_loaded<count>(first, block_threads, static_cast<int>(packs), load, use);
}
/// Blocks for use_packs<count>; at least one, for what is no whole pack.
inline unsigned pack_blocks(std::int64_t elements, int count) {
  const unsigned blocks = blocks_for((elements / pack_size + count - 1) / count);
  return blocks == 0 ? 1 : blocks;
}
/// The elements behind the last whole pack: use(i), by the first block's threads.
template <typename Use>
__device__ void use_rest(std::int64_t elements, const Use& use) {
  const std::int64_t i = elements / pack_size * pack_size + global_thread();
  if (i < elements) { use(i); }
}

/// Calls call(T{}) with the element type of `numeric`.
template <typename Call>
void with_element(Numeric numeric, const Call& call) {
  switch (numeric) {
    case Numeric::fp16:
      return call(__half{});
    case Numeric::bf16:
      return call(__nv_bfloat16{});
    case Numeric::fp32:
    case Numeric::tf32:
      return call(float{});
  }
}

inline void require_packs(const char* kernel, int channels) {
  if (channels > 0 && channels % pack_size == 0) { return; }
  throw Error(
      std::string("launch ") + kernel, ErrorCode::usage,
      std::to_string(channels) + " channels (allowed: multiples of " + std::to_string(pack_size) + ")");
}

}  // namespace virtrain::resnet50::cuda
