#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <vector>

#include "common/system/time.h"
#include "workloads/common/cuda/cublas.h"
#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/program.h"
#include "workloads/common/watchdog.h"
#include "workloads/stress/load.h"

namespace virtrain::stress {
namespace {

/// The end of what was started, for which the host sleeps: spinning would load one of its cores as well.
class End {
 public:
  void wait() const {
    done_.record(nullptr);
    done_.wait();
  }

 private:
  GpuEvent done_{GpuEvent::Timing::on};
};

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

/// Products of n x n matrices of random fp16, on tensor cores where there are any. Large ones load the SMs
/// and the memory; small ones stay in the L2 cache, so that of what neighbours share they take power alone.
class GemmWorker : public Worker {
 public:
  static constexpr int large = 4096, within_l2 = 2048;
  explicit GemmWorker(int n) : n_(n) {
    const auto count = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
    const auto values = random_halves(count);
    a_ = on_device(values);
    b_ = on_device(values);
    c_ = allocate_device(count * sizeof(float));
  }
  std::uint64_t work() override {
    const std::int64_t start_ns = monotonic_ns();
    for (int i = 0; i < products_; ++i) {
      cublas_.multiply(n_, a_.get(), b_.get(), c_.get(), CUDA_R_16F, CUBLAS_COMPUTE_32F);
    }
    end_.wait();
    const auto n = static_cast<std::uint64_t>(n_);
    const std::uint64_t done = 2 * n * n * n * static_cast<std::uint64_t>(products_);
    products_ = products_in_piece(static_cast<double>(monotonic_ns() - start_ns) * 1e-9 / products_);
    return done;
  }

 private:
  int n_;
  int products_ = 1;
  DeviceMemory a_, b_, c_;
  Cublas cublas_;
  End end_;
};

/// Ends and method of a copying worker.
struct Route {
  DeviceMemory device;
  DeviceMemory other_device;  ///< of a copy within the GPU
  PinnedMemory host;          ///< of one between it and the host
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  cudaMemcpyKind way = cudaMemcpyDefault;
};

Route route_within(std::uint64_t bytes) {
  Route route;
  route.device = on_device(random_halves(bytes / sizeof(std::uint16_t)));
  route.other_device = allocate_device(bytes);
  route.from = route.device.get();
  route.to = route.other_device.get();
  route.way = cudaMemcpyDeviceToDevice;
  return route;
}

Route route_to_host(std::uint64_t bytes, cudaMemcpyKind way) {
  Route route;
  route.device = on_device(random_halves(bytes / sizeof(std::uint16_t)));
  route.host = allocate_pinned(bytes);
  check_gpu("fill the host's memory",
            cudaMemcpy(route.host.get(), route.device.get(), bytes, cudaMemcpyDeviceToHost));
  const bool up = way == cudaMemcpyHostToDevice;
  route.from = up ? route.host.get() : route.device.get();
  route.to = up ? route.device.get() : route.host.get();
  route.way = way;
  return route;
}

/// Copies piece by piece around two buffers of so many bytes; of each byte `times` count.
class CopyWorker : public Worker {
 public:
  CopyWorker(Route route, std::uint64_t bytes, std::uint64_t piece, int times)
      : route_(std::move(route)), ring_(bytes), piece_(piece), times_(static_cast<std::uint64_t>(times)) {}

  std::uint64_t work() override {
    for (const auto& [offset, bytes] : ring_.next(piece_)) {
      check_gpu("copy", cudaMemcpyAsync(route_.to + offset, route_.from + offset, bytes, route_.way));
    }
    end_.wait();
    return times_ * piece_;
  }

 private:
  Route route_;
  Ring ring_;
  std::uint64_t piece_;
  std::uint64_t times_;
  End end_;
};

/// A worker of whose pieces each has to come to its end.
class WatchedWorker : public Worker {
 public:
  WatchedWorker(std::unique_ptr<Worker> worker, Watchdog& watchdog)
      : worker_(std::move(worker)), watchdog_(watchdog) {}
  std::uint64_t work() override {
    watchdog_.expect("load the GPU");
    const std::uint64_t done = worker_->work();
    watchdog_.pause();  // while it rests
    return done;
  }

 private:
  std::unique_ptr<Worker> worker_;
  Watchdog& watchdog_;
};

/// Error message for a piece that got no further for so long.
std::string gpu_stall_words(int stall_seconds) {
  return "nothing came of it for " + std::to_string(stall_seconds) +
         " s: the GPU may be broken or gone (nvidia-smi and the kernel's log say so), or it is too slow "
         "(then --stall_seconds gives it longer)";
}

class GpuLoad : public Load {
 public:
  explicit GpuLoad(const Flags& flags)
      : flags_(flags),
        gpu_(flags.gpu.value_or(0)),
        watchdog_(std::chrono::seconds(flags.stall_seconds), [flags](const std::string& doing) {
          report_failure("virtrain-stress", doing, gpu_stall_words(flags.stall_seconds));
        }) {
    watchdog_.expect("use GPU " + std::to_string(gpu_));
    use_gpu(gpu_);  // without one, an error before "hello" and not in the midst of the load
    device_ = gpu_device(gpu_);
    watchdog_.pause();
  }
  const char* unit() const override { return is_gemm() ? "operations" : "B"; }
  int threads() const override { return 1; }
  Device device() override { return device_; }

  std::unique_ptr<Worker> make_worker(int /*index*/) override {
    watchdog_.expect("fill the GPU's memory");
    use_gpu(gpu_);  // the current GPU is one of each thread
    return std::make_unique<WatchedWorker>(make_unwatched(), watchdog_);
  }

 private:
  bool is_gemm() const { return flags_.kind == Kind::gemm || flags_.kind == Kind::power; }
  std::unique_ptr<Worker> make_unwatched() const {
    if (is_gemm()) {
      return std::make_unique<GemmWorker>(flags_.kind == Kind::gemm ? GemmWorker::large
                                                                    : GemmWorker::within_l2);
    }
    if (flags_.kind == Kind::membw || flags_.kind == Kind::l2) {
      constexpr std::uint64_t largest_piece = 1ULL << 30;
      // Both buffers of l2 lie within the cache of any GPU with tensor cores but the T4.
      const std::uint64_t own_bytes = flags_.kind == Kind::l2 ? 4ULL << 20 : 512ULL << 20;
      const std::uint64_t bytes = (flags_.bytes > 0 ? flags_.bytes : own_bytes) / 2;
      constexpr int times = 2;  // what is read and what is written
      return std::make_unique<CopyWorker>(route_within(bytes), bytes,
                                          piece_bytes(largest_piece, times, flags_.bytes_per_second), times);
    }
    constexpr std::uint64_t largest_piece = 64ULL << 20;
    const std::uint64_t bytes = flags_.bytes > 0 ? flags_.bytes : largest_piece;
    const auto way = flags_.kind == Kind::h2d ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    return std::make_unique<CopyWorker>(route_to_host(bytes, way), bytes,
                                        piece_bytes(largest_piece, 1, flags_.bytes_per_second), 1);
  }

  const Flags flags_;
  int gpu_;
  Watchdog watchdog_;
  Device device_;
};

}  // namespace

std::unique_ptr<Load> make_gpu_load(const Flags& flags) {
  return std::make_unique<GpuLoad>(flags);
}

Device gpu_device(int gpu) {
  cudaDeviceProp properties{};
  check_gpu("ask the GPU for its properties", cudaGetDeviceProperties(&properties, gpu));
  return {static_cast<const char*>(properties.name), gpu_pci_address(gpu)};
}

}  // namespace virtrain::stress
