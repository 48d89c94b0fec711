#pragma once

#include <boost/describe/class.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::harness {

/// What a rank says of its GPU, from inside its node: the object `gpu` of its records `hello` (or `ready`)
/// and `result`, with the names of workloads/common/gpu/nvml.h. What it does not say is absent, never false
/// or zero.
struct GpuRecord {
  std::optional<std::string> error;  ///< why NVML, or the GPU within it, could not be asked
  std::optional<std::string> uuid;
  std::optional<std::string> virtualization;  ///< "none", "passthrough", "vgpu"
  std::optional<bool> licensed;
  std::optional<bool> ecc_enabled;
  std::optional<bool> row_remap_pending;
  std::optional<std::int64_t> uncorrected_ecc_errors;
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<double> power_limit_w;
  std::optional<double> application_clock_mhz;
  std::optional<std::string> fabric_state;  ///< "completed", "not_supported", "in_progress", "failed", …
};
BOOST_DESCRIBE_STRUCT(GpuRecord, (),
                      (error, uuid, virtualization, licensed, ecc_enabled, row_remap_pending,
                       uncorrected_ecc_errors, throttle_reasons, power_limit_w, application_clock_mhz,
                       fabric_state))

/// Nothing where the record has no such object. Values of other types than these count as absent: what a
/// guest sends is not to be trusted.
std::optional<GpuRecord> read_gpu_record(const std::optional<nlohmann::json>& record);

}  // namespace virtrain::harness
