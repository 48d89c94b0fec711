#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Reads NVIDIA's management library. It is loaded at run time with declarations of our own, so that one
/// binary runs with and without a driver. A value that a GPU (or the driver's version, or a vGPU) does not
/// give is absent, never zero.
namespace virtrain {

/// Values that should not change while a job runs; they are read at both its ends to know that they did not.
struct GpuIdentity {
  std::optional<std::string> name;
  std::optional<std::string> uuid;
  std::optional<std::string> driver;
  std::optional<std::string> vbios;
  std::optional<double> power_limit_w;  ///< the one in force
  std::optional<unsigned> most_sm_clock_mhz;
  std::optional<unsigned>
      application_clock_mhz;  ///< the one that is set for its work; newest cards have none
  std::optional<bool> ecc_enabled;
  std::optional<unsigned> pcie_generation;  ///< now; an idle link is slower than its best
  std::optional<unsigned> pcie_width;
  std::optional<unsigned> best_pcie_generation;
  std::optional<unsigned> best_pcie_width;
  std::optional<bool> mig_enabled;
  std::optional<std::string> virtualization;  ///< "none", "passthrough", "vgpu", "host_vgpu", "host_vsga"
  std::optional<bool> licensed;               ///< of a vGPU: an unlicensed one slows down with time
};

/// Values that change from moment to moment. Cheap to ask for: they are sampled during a measurement.
struct GpuState {
  std::optional<unsigned> sm_clock_mhz;
  std::optional<unsigned> memory_clock_mhz;
  std::optional<unsigned> temperature_c;
  std::optional<double> power_w;
  std::optional<double> energy_j;  ///< since the driver was loaded
  std::optional<std::vector<std::string>> throttle_reasons;
};

/// Values that may have changed from one end of a run to the other. They are asked for there and not in
/// between: the driver may have to ask the GPU's firmware, which would disturb a measurement.
struct GpuHealth {
  std::optional<std::uint64_t> uncorrected_ecc_errors;  ///< since the driver was loaded
  std::optional<bool> row_remap_pending;  ///< rows of its memory to be replaced at the next reset
  /// State of NVLink through switches: "not_supported", "not_started", "in_progress", "completed", "failed".
  /// CUDA starts with the first and the fourth only.
  std::optional<std::string> fabric_state;
  std::optional<unsigned> compute_processes;  ///< that use the GPU, ours included
};

/// Whether others compute on it.
struct GpuUse {
  std::optional<unsigned> compute_processes;  ///< that have a context on the GPU, ours included
  std::optional<unsigned> busy_percent;       ///< of the last second or less, in which a kernel ran
};

/// "; 3 processes use the GPU, this one included (nvidia-smi lists them)", to follow the words of a refusal;
/// "" where it is not shared or not told (in a container NVML may see no process at all).
std::string sharing_words(const GpuHealth& health);

/// The reasons' names in NVML's bit mask, "bit 9" for what is newer than this list.
std::vector<std::string> throttle_reason_names(std::uint64_t bits);

nlohmann::json to_json(const GpuIdentity& identity);
nlohmann::json to_json(const GpuState& state);
nlohmann::json to_json(const GpuHealth& health);

/// The library, initialized as long as this lives. Calls take under a millisecond to some ten; all may be
/// made from any thread.
class Nvml {
 public:
  /// Throws Error(host_unable) if there is no library or no driver behind it.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;

  /// A GPU by its PCI address ("0000:19:00.0"): CUDA and NVML may count them differently. Throws
  /// Error(not_found).
  GpuIdentity identity(const std::string& pci_address) const;
  GpuState state(const std::string& pci_address) const;
  GpuHealth health(const std::string& pci_address) const;
  GpuUse use(const std::string& pci_address) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace virtrain
