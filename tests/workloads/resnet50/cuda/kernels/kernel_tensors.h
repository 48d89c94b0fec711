#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "workloads/resnet50/cuda/kernels/kernels.h"

/// Tensors for the kernels' tests: in the memory of a GPU, or of the emulation
/// (tests/workloads/resnet50/cuda/kernels/emulation).
namespace virtrain::resnet50::cuda {

using Values = std::vector<double>;

inline void require_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    test::skip(std::string("no GPU: ") + cudaGetErrorString(status));
  }
}

/// A large one is not for the emulation, where there is no driver.
inline bool affordable(std::int64_t elements) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return driver != 0 || elements <= 200'000;
}

inline void check(cudaError_t status) {
  REQUIRE(std::string(cudaGetErrorString(status)) == "no error");
}

inline double rounded(Numeric numeric, double value) {
  const auto narrow_value = static_cast<float>(value);
  if (numeric == Numeric::fp16) { return __half2float(__float2half_rn(narrow_value)); }
  if (numeric == Numeric::bf16) { return __bfloat162float(__float2bfloat16_rn(narrow_value)); }
  return narrow_value;
}

inline Values random_values(Numeric numeric, std::int64_t count, unsigned seed, double mean = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, 1);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) { value = rounded(numeric, normal(generator)); }
  return values;
}

/// Device memory with a copy in and out.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes));
    check(cudaMemset(data_, 0xff, bytes));  // NaN: what a kernel forgets to write shows
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void* data() const { return data_; }
  template <typename T>
  void set(const std::vector<T>& values) {
    REQUIRE(values.size() * sizeof(T) == bytes_);
    check(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice));
  }
  template <typename T>
  std::vector<T> get() const {
    std::vector<T> values(bytes_ / sizeof(T));
    check(cudaMemcpy(values.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// An activation of this type.
class Tensor : public Buffer {
 public:
  Tensor(Numeric numeric, std::size_t count)
      : Buffer(count * static_cast<std::size_t>(element_bytes(numeric))), numeric_(numeric) {}
  Tensor(Numeric numeric, const Values& values) : Tensor(numeric, values.size()) {
    if (numeric == Numeric::fp16) {
      std::vector<__half> narrow_values;
      for (const double value : values) {
        narrow_values.push_back(__float2half_rn(static_cast<float>(value)));
      }
      set(narrow_values);
    } else if (numeric == Numeric::bf16) {
      std::vector<__nv_bfloat16> narrow_values;
      for (const double value : values) {
        narrow_values.push_back(__float2bfloat16_rn(static_cast<float>(value)));
      }
      set(narrow_values);
    } else {
      set(std::vector<float>(values.begin(), values.end()));
    }
  }
  Values values() const {
    Values result;
    if (numeric_ == Numeric::fp16) {
      for (const __half value : get<__half>()) { result.push_back(__half2float(value)); }
    } else if (numeric_ == Numeric::bf16) {
      for (const __nv_bfloat16 value : get<__nv_bfloat16>()) { result.push_back(__bfloat162float(value)); }
    } else {
      for (const float value : get<float>()) { result.push_back(value); }
    }
    return result;
  }

 private:
  Numeric numeric_;
};

inline Tensor vector_of(const Values& values) {
  return Tensor(Numeric::fp32, values);
}

inline double distance(const Values& actual, const Values& expected) {
  REQUIRE(actual.size() == expected.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / (size > 0 ? size : 1));
}

inline double tolerance(Numeric numeric) {
  if (numeric == Numeric::fp16) { return 0x1p-10; }
  return numeric == Numeric::bf16 ? 0x1p-7 : 1e-5;
}

}  // namespace virtrain::resnet50::cuda
