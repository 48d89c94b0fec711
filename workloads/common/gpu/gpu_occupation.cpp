#include "workloads/common/gpu/gpu_occupation.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/error.h"

namespace virtrain {
namespace {

/// NVML averages over up to a second.
constexpr int samples = 6;
constexpr std::chrono::milliseconds period{300};
/// A display or a monitor takes a few percent.
constexpr unsigned busy_percent = 10;

bool is_occupied(const GpuUse& use) {
  return use.compute_processes.value_or(0) > 1 && use.busy_percent.value_or(0) > busy_percent;
}

}  // namespace

void refuse_occupied_gpu(const std::string& pci_address, const std::function<GpuUse()>& ask,
                         const std::function<void()>& pause) {
  unsigned least_percent = 100;
  unsigned others = 0;
  for (int i = 0; i < samples; ++i) {
    if (i > 0) { pause(); }
    const GpuUse use = ask();
    if (!is_occupied(use)) { return; }
    others = *use.compute_processes - 1;
    least_percent = std::min(least_percent, *use.busy_percent);
  }
  throw Error("take the GPU " + pci_address, ErrorCode::busy,
              "it is occupied: " + std::to_string(others) + " other processes keep it at least " +
                  std::to_string(least_percent) +
                  " % busy (nvidia-smi lists them; end them, choose another GPU with CUDA_VISIBLE_DEVICES, "
                  "or share it with --shared_gpu)");
}

void refuse_occupied_gpu(const std::string& pci_address) {
  try {
    const Nvml nvml;
    refuse_occupied_gpu(
        pci_address, [&] { return nvml.use(pci_address); }, [] { std::this_thread::sleep_for(period); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::busy) { throw; }
  }
}

}  // namespace virtrain
