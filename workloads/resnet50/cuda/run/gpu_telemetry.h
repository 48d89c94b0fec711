#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "workloads/common/gpu/gpu_sampler.h"
#include "workloads/common/gpu/nvml.h"
#include "workloads/resnet50/training/steady_state.h"

namespace virtrain::resnet50::cuda {

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
