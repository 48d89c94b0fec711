#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "workloads/common/gpu/gpu_sampler.h"
#include "workloads/common/gpu/nvml.h"
#include "workloads/common/peers/peers.h"
#include "workloads/resnet50/training/step_statistics.h"

/// The GPU of this rank.

namespace virtrain::resnet50::cuda {

struct Gpu {
  int index = 0;
  std::string name;
  std::string pci_address;     ///< "0000:19:00.0"
  int compute_capability = 0;  ///< 90
  int driver_version = 0;      ///< what CUDA the driver serves: 13000
  int runtime_version = 0;
  std::int64_t free_bytes = 0, total_bytes = 0;
};

/// Takes the GPU of this rank (workloads/common/gpu/gpu_choice.h), by all ranks. Throws Error in words that
/// say what is missing.
Gpu take_gpu(Peers& peers);

/// The GPU as NVML sees it; where there is no NVML, nothing is told and the run goes on.
class GpuTelemetry {
 public:
  explicit GpuTelemetry(const std::string& pci_address);

  /// "580.65.06", where NVML tells.
  std::optional<std::string> driver() const { return identity_.driver; }
  /// "; 3 processes use the GPU, this one included (...)", where it is shared and NVML tells; else "".
  std::string sharing_words() const;
  /// Object `gpu` of a record: {"error": words} without NVML.
  nlohmann::json now() const;
  void observe(WarmupStep& step) const;
  void begin_counting();
  /// The last sample: what the record says of the run is between the two.
  void end_counting();
  nlohmann::json result(std::int64_t images);

 private:
  std::string pci_address_;
  std::optional<Nvml> nvml_;
  GpuIdentity identity_;  ///< as the run began
  std::string error_;
  std::unique_ptr<GpuSampler> sampler_;
  GpuCourse course_;  ///< of the counted steps, once they are over
};

}  // namespace virtrain::resnet50::cuda
