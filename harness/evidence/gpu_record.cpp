#include "harness/evidence/gpu_record.h"

#include "common/text.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;

const json* field(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::optional<bool> flag(const json& object, const char* name) {
  const auto* value = field(object, name);
  return value != nullptr && value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
}

std::optional<double> number(const json& object, const char* name) {
  const auto* value = field(object, name);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<std::string> text(const json& object, const char* name) {
  const auto* value = field(object, name);
  return value != nullptr && value->is_string() ? std::optional(printable(value->get<std::string>()))
                                                : std::nullopt;
}

}  // namespace

std::optional<GpuRecord> read_gpu_record(const std::optional<json>& record) {
  const auto* gpu = record ? field(*record, "gpu") : nullptr;
  if (gpu == nullptr || !gpu->is_object()) { return std::nullopt; }
  GpuRecord out;
  out.error = text(*gpu, "error");
  out.uuid = text(*gpu, "uuid");
  out.virtualization = text(*gpu, "virtualization");
  out.licensed = flag(*gpu, "licensed");
  out.ecc_enabled = flag(*gpu, "ecc_enabled");
  out.row_remap_pending = flag(*gpu, "row_remap_pending");
  if (const auto* errors = field(*gpu, "uncorrected_ecc_errors");
      errors != nullptr && errors->is_number_integer()) {
    out.uncorrected_ecc_errors = errors->get<std::int64_t>();
  }
  out.power_limit_w = number(*gpu, "power_limit_w");
  out.application_clock_mhz = number(*gpu, "application_clock_mhz");
  out.fabric_state = text(*gpu, "fabric_state");
  if (const auto* reasons = field(*gpu, "throttle_reasons"); reasons != nullptr && reasons->is_array()) {
    auto& list = out.throttle_reasons.emplace();
    for (const auto& reason : *reasons) {
      if (reason.is_string()) { list.push_back(printable(reason.get<std::string>())); }
    }
  }
  return out;
}

}  // namespace virtrain::harness
