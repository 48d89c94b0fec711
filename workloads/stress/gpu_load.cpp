#include "workloads/common/cuda/cublas.h"
#include "workloads/common/cuda/gpu_choice.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/cuda/gpu_handles.h"
#include "workloads/stress/load.h"

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <vector>

namespace virtrain::stress {
namespace {

void wait() {
  check_gpu("wait for the GPU", cudaDeviceSynchronize());
}

/// Bits that are finite numbers between -1 and 1 in 16 bits, and no pattern: zeros would run faster.
std::vector<std::uint16_t> random_halves(std::size_t count) {
  std::vector<std::uint16_t> values(count);
  std::uint32_t state = 1;
  for (std::uint16_t& value : values) {
    state = state * 1664525U + 1013904223U;
    value = std::bit_cast<std::uint16_t>(__float2half((static_cast<float>(state >> 25U) - 64.0F) / 64.0F));
  }
  return values;
}

DeviceMemory on_device(const std::vector<std::uint16_t>& values) {
  const std::size_t bytes = values.size() * sizeof values[0];
  DeviceMemory memory = allocate_device(bytes);
  check_gpu("fill the GPU's memory", cudaMemcpy(memory.get(), values.data(), bytes, cudaMemcpyHostToDevice));
  return memory;
}

/// Products of 4096 x 4096 matrices in fp16, on tensor cores where there are any.
class GemmWorker : public Worker {
 public:
  explicit GemmWorker(int gpu) {
    use_gpu(gpu);
    const auto values = random_halves(std::size_t{n} * n);
    a_ = on_device(values);
    b_ = on_device(values);
    c_ = allocate_device(std::size_t{n} * n * sizeof(float));
    cublas_.emplace();
  }
  std::uint64_t work() override {
    for (int i = 0; i < products; ++i) {
      cublas_->multiply(n, a_.get(), b_.get(), c_.get(), CUDA_R_16F, CUBLAS_COMPUTE_32F);
    }
    wait();
    return 2ULL * n * n * n * products;
  }

 private:
  static constexpr int n = 4096;
  static constexpr int products = 4;
  DeviceMemory a_, b_, c_;
  std::optional<Cublas> cublas_;
};

/// Copies within the GPU's memory; what is read and what is written counts.
class DeviceCopyWorker : public Worker {
 public:
  DeviceCopyWorker(int gpu, std::uint64_t bytes) : bytes_(bytes / 2) {
    use_gpu(gpu);
    from_ = on_device(random_halves(bytes_ / sizeof(std::uint16_t)));
    to_ = allocate_device(bytes_);
  }
  std::uint64_t work() override {
    for (int i = 0; i < copies; ++i) {
      check_gpu("copy", cudaMemcpyAsync(to_.get(), from_.get(), bytes_, cudaMemcpyDeviceToDevice));
    }
    wait();
    return 2ULL * bytes_ * copies;
  }

 private:
  static constexpr int copies = 4;
  std::size_t bytes_;
  DeviceMemory from_, to_;
};

/// Copies between page-locked host memory and the GPU.
class HostCopyWorker : public Worker {
 public:
  HostCopyWorker(int gpu, std::uint64_t bytes, cudaMemcpyKind way) : bytes_(bytes), way_(way) {
    use_gpu(gpu);
    device_ = on_device(random_halves(bytes_ / sizeof(std::uint16_t)));
    host_ = allocate_pinned(bytes_);
    check_gpu("fill the host's memory",
              cudaMemcpy(host_.get(), device_.get(), bytes_, cudaMemcpyDeviceToHost));
  }
  std::uint64_t work() override {
    const bool up = way_ == cudaMemcpyHostToDevice;
    const std::byte* const from = up ? host_.get() : device_.get();
    std::byte* const to = up ? device_.get() : host_.get();
    check_gpu("copy", cudaMemcpyAsync(to, from, bytes_, way_));
    wait();
    return bytes_;
  }

 private:
  std::size_t bytes_;
  cudaMemcpyKind way_;
  DeviceMemory device_;
  PinnedMemory host_;
};

class GpuLoad : public Load {
 public:
  explicit GpuLoad(const Flags& flags) : kind_(flags.kind), gpu_(flags.gpu.value_or(0)), bytes_(flags.bytes) {
    use_gpu(gpu_);  // without one, an error before "hello" and not in the midst of the load
  }
  const char* unit() const override { return kind_ == Kind::gemm ? "operations" : "B"; }
  int threads() const override { return 1; }
  std::unique_ptr<Worker> make_worker(int /*index*/) override {
    constexpr std::uint64_t device_bytes = 512ULL << 20;
    constexpr std::uint64_t host_bytes = 64ULL << 20;
    if (kind_ == Kind::gemm) return std::make_unique<GemmWorker>(gpu_);
    if (kind_ == Kind::membw)
      return std::make_unique<DeviceCopyWorker>(gpu_, bytes_ > 0 ? bytes_ : device_bytes);
    return std::make_unique<HostCopyWorker>(
        gpu_, bytes_ > 0 ? bytes_ : host_bytes,
        kind_ == Kind::h2d ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
  }

 private:
  Kind kind_;
  int gpu_;
  std::uint64_t bytes_;
};

}  // namespace

std::unique_ptr<Load> make_gpu_load(const Flags& flags) {
  return std::make_unique<GpuLoad>(flags);
}

}  // namespace virtrain::stress
