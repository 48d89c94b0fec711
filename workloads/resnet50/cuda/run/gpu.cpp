#include "workloads/resnet50/cuda/run/gpu.h"

#include <cuda_runtime_api.h>

#include "common/error.h"
#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::resnet50::cuda {

Gpu take_gpu(Peers& peers) {
  Gpu gpu;
  gpu.index = use_own_gpu(peers, 0);
  cudaDeviceProp properties{};
  check_gpu("read the GPU's properties", cudaGetDeviceProperties(&properties, gpu.index));
  gpu.name = properties.name;
  gpu.compute_capability = properties.major * 10 + properties.minor;
  gpu.pci_address = gpu_pci_address(gpu.index);
  check_gpu("read the driver's version", cudaDriverGetVersion(&gpu.driver_version));
  check_gpu("read the runtime's version", cudaRuntimeGetVersion(&gpu.runtime_version));
  std::size_t free_bytes = 0, total_bytes = 0;
  check_gpu("read the GPU's free memory", cudaMemGetInfo(&free_bytes, &total_bytes));
  gpu.free_bytes = static_cast<std::int64_t>(free_bytes);
  gpu.total_bytes = static_cast<std::int64_t>(total_bytes);
  return gpu;
}

GpuTelemetry::GpuTelemetry(const std::string& pci_address) : pci_address_(pci_address) {
  try {
    nvml_.emplace();
    identity_ = nvml_->identity(pci_address_);
    sampler_ = std::make_unique<GpuSampler>([this] { return nvml_->state(pci_address_); });
  } catch (const Error& error) { error_ = error.what(); }
}

std::string GpuTelemetry::sharing_words() const {
  if (!sampler_ || identity_.mig_enabled.value_or(false)) {
    return "";  // other slices' memory is their own
  }
  try {
    return virtrain::sharing_words(nvml_->health(pci_address_));
  } catch (const Error&) {  // the GPU is lost: who asks has a failure to tell already
    return "";
  }
}

nlohmann::json GpuTelemetry::now() const {
  if (!sampler_) { return {{"error", error_}}; }
  sampler_->restart();  // a sample of this moment, or none where the GPU is lost
  return gpu_record(*nvml_, pci_address_, identity_, sampler_->course().latest(), GpuCourse(), std::nullopt);
}

void GpuTelemetry::observe(WarmupStep& step) const {
  if (!sampler_) { return; }
  const GpuState state = sampler_->course().latest();
  if (state.sm_clock_mhz) { step.sm_clock_mhz = *state.sm_clock_mhz; }
  if (state.temperature_c) { step.temperature_c = *state.temperature_c; }
}

void GpuTelemetry::begin_counting() {
  if (sampler_) { sampler_->restart(); }
}

void GpuTelemetry::end_counting() {
  if (sampler_) { course_ = sampler_->stop(); }
}

nlohmann::json GpuTelemetry::result(std::int64_t images) {
  if (!sampler_) { return {{"error", error_}}; }
  return gpu_record(*nvml_, pci_address_, identity_, course_.latest(), course_, images);
}

}  // namespace virtrain::resnet50::cuda
