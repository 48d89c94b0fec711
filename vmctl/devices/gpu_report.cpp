#include "vmctl/devices/gpu_report.h"

#include <pugixml.hpp>

#include <algorithm>

#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

using Node = pugi::xml_node;

std::string text_of(const Node& gpu, const char* path) {
  const auto text = std::string(trim(gpu.select_node(path).node().text().get()));
  return text == "N/A" ? "" : text;
}

/// "Enabled" and "Disabled", "Yes" and "No".
std::optional<bool> flag(const Node& gpu, const char* path) {
  const auto text = text_of(gpu, path);
  if (text == "Enabled" || text == "Yes" || text == "Active") { return true; }
  if (text == "Disabled" || text == "No" || text == "Not Active") { return false; }
  return std::nullopt;
}

/// True where one of them is, false where one says so and none is, else unknown.
std::optional<bool> any_flag(const Node& gpu, const std::vector<const char*>& paths) {
  std::optional<bool> any;
  for (const auto* path : paths) {
    if (const auto one = flag(gpu, path)) { any = any.value_or(false) || *one; }
  }
  return any;
}

/// "250.00 W".
std::optional<double> watts(const Node& gpu, const std::vector<const char*>& paths) {
  for (const auto* path : paths) {
    const auto text = text_of(gpu, path);
    if (const auto number = parse_number(text.substr(0, text.find(' ')))) { return number; }
  }
  return std::nullopt;
}

/// Every "…uncorrectable…" counter since the driver was loaded; their names change from version to version.
std::optional<std::uint64_t> uncorrected_errors(const Node& gpu) {
  std::optional<std::uint64_t> sum;
  for (const auto& counter : gpu.select_node("ecc_errors/volatile").node().children()) {
    if (std::string_view(counter.name()).find("uncorrectable") == std::string_view::npos) { continue; }
    if (const auto count = parse_integer(trim(counter.text().get())); count && *count >= 0) {
      sum = sum.value_or(0) + static_cast<std::uint64_t>(*count);
    }
  }
  return sum;
}

/// "clocks_event_reason_hw_slowdown" (before 535 "clocks_throttle_reason_…") as "hw_slowdown".
std::vector<std::string> slowdowns(const Node& gpu) {
  std::vector<std::string> active;
  for (const auto* block : {"clocks_event_reasons", "clocks_throttle_reasons"}) {
    for (const auto& reason : gpu.child(block).children()) {
      const std::string name = reason.name();
      const auto* const harmful = std::ranges::find_if(
          harmful_slowdowns, [&](const char* one) { return name.ends_with(std::string("reason_") + one); });
      if (harmful != harmful_slowdowns.end() && trim(reason.text().get()) == "Active") {
        active.emplace_back(*harmful);
      }
    }
  }
  return active;
}

GpuReport read_report(const Node& gpu) {
  GpuReport report;
  report.persistence = flag(gpu, "persistence_mode");
  report.mig = flag(gpu, "mig_mode/current_mig");
  report.mig_pending = flag(gpu, "mig_mode/pending_mig");
  report.ecc = flag(gpu, "ecc_mode/current_ecc");
  report.ecc_pending = flag(gpu, "ecc_mode/pending_ecc");
  report.uncorrected_ecc_errors = uncorrected_errors(gpu);
  report.repair_pending =
      any_flag(gpu, {"remapped_rows/remapped_row_pending", "retired_pages/pending_retirement",
                     "retired_pages/pending_blacklist"});
  report.repair_failed = flag(gpu, "remapped_rows/remapped_row_failure");
  report.mixed_vgpu_sizes = flag(gpu, "gpu_virtualization_mode/vgpu_heterogeneous_mode");
  report.virtualization = text_of(gpu, "gpu_virtualization_mode/virtualization_mode");
  for (const auto* product : {"vgpu_software_licensed_product", "grid_licensed_product"}) {  // before 13.0
    if (report.licence.empty()) {
      report.licence = text_of(gpu, (product + std::string("/license_status")).c_str());
    }
  }
  report.fabric_state = text_of(gpu, "fabric/state");
  report.fabric_status = text_of(gpu, "fabric/status");
  report.slowdowns = slowdowns(gpu);
  report.power_limit_w = watts(gpu, {"gpu_power_readings/current_power_limit", "power_readings/power_limit"});
  report.default_power_limit_w =
      watts(gpu, {"gpu_power_readings/default_power_limit", "power_readings/default_power_limit"});
  return report;
}

}  // namespace

std::map<std::string, GpuReport> read_gpu_reports(const std::string& xml) {
  std::map<std::string, GpuReport> reports;
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) { return reports; }
  for (const auto& gpu : document.child("nvidia_smi_log").children("gpu")) {
    const std::string address = gpu.attribute("id").value();
    if (address.size() == 16) { reports.emplace(kernel_address(address), read_report(gpu)); }
  }
  return reports;
}

}  // namespace virtrain::vmctl
