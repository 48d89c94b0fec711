#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// Reasons for which a GPU slows down that make its figures worthless; being idle, and clocks that somebody
/// set, are none. NVML's names, in small letters.
inline constexpr std::array harmful_slowdowns{"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
                                              "sw_thermal_slowdown"};

/// What `nvidia-smi -q -x` says of one GPU of the host. What it does not tell ("N/A", an older or newer
/// version) is absent, never false or zero.
struct GpuReport {
  std::optional<bool> persistence;
  std::optional<bool> mig, mig_pending;  ///< enabled now, and after the next reset
  std::optional<bool> ecc, ecc_pending;
  std::optional<std::uint64_t> uncorrected_ecc_errors;  ///< since the driver was loaded
  std::optional<bool> repair_pending;                   ///< rows to be remapped or pages to be retired
  std::optional<bool> repair_failed;
  std::optional<bool> mixed_vgpu_sizes;     ///< vGPU host: framebuffers of several sizes on the card
  std::string virtualization;               ///< "None", "Host VGPU", "Pass-Through", "VGPU"; empty: unknown
  std::string fabric_state, fabric_status;  ///< "Completed", "Success"; empty: it has no fabric
  std::vector<std::string> slowdowns;       ///< active reasons, thermal and power brake among them
  std::optional<double> power_limit_w, default_power_limit_w;
};

/// nvidia-smi's spelling of a PCI address, "00000000:17:00.0", domains of eight digits and capitals, as the
/// kernel's: "0000:17:00.0".
std::string kernel_address(const std::string& nvidia_address);

/// By PCI address. Text that is no such XML gives nothing.
std::map<std::string, GpuReport> read_gpu_reports(const std::string& xml);

}  // namespace virtrain::vmctl
