#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "workloads/common/cuda/gpu_errors.h"

// A GPU by its PCI address, and memory of it.

namespace virtrain::canary {

/// CUDA's number of the GPU at that PCI address. Throws Error.
int find_gpu(const std::string& address);

/// Error message for a GPU that takes longer than that.
std::string hang_words(std::chrono::milliseconds limit);

struct FreeOnGpu {
  void operator()(std::byte* memory) const { ignore_gpu(cudaFree(memory)); }
};
using GpuMemory = std::unique_ptr<std::byte, FreeOnGpu>;

/// Allocates GPU memory; nothing where none is left. Throws Error.
GpuMemory try_to_allocate(std::uint64_t bytes);

/// Values in memory of the GPU. Throws Error.
template <typename T>
class GpuValues {
 public:
  GpuValues(std::size_t count, const T& each) : host_(count, each), memory_(try_to_allocate(bytes())) {
    if (!memory_) {
      throw Error("allocate the GPU's memory", ErrorCode::busy, "no memory of the GPU is free");
    }
    check_gpu("write to the GPU", cudaMemcpy(get(), host_.data(), bytes(), cudaMemcpyHostToDevice));
  }
  T* get() const { return reinterpret_cast<T*>(memory_.get()); }
  const std::vector<T>& read() {
    check_gpu("read from the GPU", cudaMemcpy(host_.data(), get(), bytes(), cudaMemcpyDeviceToHost));
    return host_;
  }

 private:
  std::size_t bytes() const { return host_.size() * sizeof(T); }

  std::vector<T> host_;
  GpuMemory memory_;
};

}  // namespace virtrain::canary
