#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "tests/workloads/canary/cuda/fake_gpu.h"
#include "tests/workloads/resnet50/cuda/kernels/emulation/execution.h"
#include "workloads/canary/kernels.h"
#include "workloads/common/cuda/gpu_errors.h"

/// The services that nvcc has from kernels.cu itself, on the CPU: included before kernels.cu, which is then
/// compiled as C++. The threads run as those of the trainer's kernels do.

inline void atomicAdd(unsigned long long* value, unsigned long long more) {  // NOLINT
  *value += more;
}
inline void atomicMin(unsigned long long* value, unsigned long long other) {  // NOLINT
  *value = std::min(*value, other);
}
inline void atomicMax(unsigned long long* value, unsigned long long other) {  // NOLINT
  *value = std::max(*value, other);
}

namespace virtrain::canary {

/// Blocks come to multiprocessors as the GPU likes: at first the last one gets none.
inline unsigned multiprocessor() {
  const bool is_uneven = test::fake_gpu->launches % 2 == 1;
  return is_uneven ? std::min(blockIdx.x, test::FakeGpu::multiprocessors - 2) : blockIdx.x;
}

inline volatile Word* shared_words() {
  return reinterpret_cast<volatile Word*>(test::fake_gpu->shared[multiprocessor()].data());
}

/// Those of the block's multiprocessor that its threads have.
inline std::uint64_t* registers() {
  return test::fake_gpu->registers[multiprocessor()].data() + std::size_t{threadIdx.x} * register_words;
}
inline void leave_in_registers(const std::uint64_t* word) {
  std::fill_n(registers(), register_words, *word);
}
inline unsigned count_in_registers(const std::uint64_t* /*word*/, std::uint64_t wanted) {
  return static_cast<unsigned>(std::count(registers(), registers() + register_words, wanted));
}

template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            unsigned shared_bytes, std::type_identity_t<Parameters>... arguments) {
  auto& gpu = *test::fake_gpu;
  ++gpu.launches;
  while (gpu.hangs) { std::this_thread::sleep_for(std::chrono::seconds{1}); }
  if (gpu.is_closed) { gpu.lasting = gpu.fault; }
  check_gpu(std::string("wait for ") + name, gpu.lasting);
  if (shared_bytes > 0 && !gpu.keeps_shared) {
    for (auto& memory : gpu.shared) { std::fill(memory.begin(), memory.end(), std::byte{0}); }
  }
  if (!gpu.keeps_registers) {
    for (auto& words : gpu.registers) { std::fill(words.begin(), words.end(), 0); }
  }
  test::emulation::run(name, dim3(blocks), threads, [&] { kernel(arguments...); });
}

template <typename... Parameters>
void load(void (* /*kernel*/)(Parameters...)) {}

}  // namespace virtrain::canary
