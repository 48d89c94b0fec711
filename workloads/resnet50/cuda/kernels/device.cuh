#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <string>

#include "common/error.h"
#include "workloads/resnet50/cuda/kernels/arithmetic.h"
#include "workloads/resnet50/cuda/kernels/execution.cuh"
#include "workloads/resnet50/cuda/kernels/numeric.h"

/// What all kernels share: packs of eight elements, conversions, sizes of launches.
namespace virtrain::resnet50::cuda {

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
__device__ Floats load(const void* base, std::int64_t pack) {
  const Pack<T> raw = static_cast<const Pack<T>*>(base)[pack];
  Floats values;
#pragma unroll
  for (int i = 0; i < pack_size; ++i) { values.at[i] = to_float(raw.at[i]); }
  return values;
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
