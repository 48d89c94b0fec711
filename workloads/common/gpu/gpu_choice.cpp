#include "workloads/common/gpu/gpu_choice.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "common/error.h"

namespace virtrain {
namespace {

bool may_share() {
  return std::getenv("NCCL_HOSTID") != nullptr;
}

}  // namespace

int gpu_of_rank(const LocalRank& local, int first, int visible) {
  if (first == 0 && visible == 1) { return 0; }
  if (first + local.size > visible && (visible == 0 || !may_share())) {
    const std::string from = first > 0 ? " from GPU " + std::to_string(first) + " on" : "";
    throw Error("take a GPU", ErrorCode::host_unable,
                std::to_string(local.size) + (local.size == 1 ? " rank" : " ranks") + " on this host" + from +
                    ", but " + std::to_string(visible) + (visible == 1 ? " GPU is" : " GPUs are") +
                    " visible (one rank for each)");
  }
  return (first + local.rank) % visible;
}

std::string gpu_identity(const std::string& uuid, const std::string& pci_address, const std::string& host,
                         const std::string& boot) {
  return uuid + " at " + pci_address + " of " + (boot.empty() ? host : "the kernel started as " + boot);
}

void refuse_shared_gpu(const std::vector<std::string>& gpus) {
  if (may_share()) { return; }
  std::map<std::string, std::size_t> taken;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto [first, is_free] = taken.emplace(gpus[rank], rank);
    if (!is_free) {
      throw Error("take a GPU", ErrorCode::host_unable,
                  "ranks " + std::to_string(first->second) + " and " + std::to_string(rank) +
                      " have the same one, " + gpus[rank] +
                      " (one rank for each GPU; CUDA_VISIBLE_DEVICES says which a rank sees)");
    }
  }
}

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
