#include "workloads/common/gpu/nvml.h"

#include <dlfcn.h>

#include <array>

#include "common/error.h"
#include "common/model/protocol.h"
#include "common/text/described_json.h"
#include "common/text/json.h"

namespace virtrain {
namespace {

constexpr int success = 0;
constexpr int insufficient_size = 7;
using Device = void*;

// Values of nvml.h's enumerations.
constexpr int graphics_clock = 0;
constexpr int sm_clock = 1;
constexpr int memory_clock = 2;
constexpr int gpu_temperature = 0;
constexpr int uncorrected_errors = 1;
constexpr int since_driver_load = 0;
constexpr std::array<const char*, 5> virtualization_modes{"none", "passthrough", "vgpu", "host_vgpu",
                                                          "host_vsga"};
constexpr std::array<const char*, 9> throttle_reasons{"gpu_idle",
                                                      "applications_clocks_setting",
                                                      "sw_power_cap",
                                                      "hw_slowdown",
                                                      "sync_boost",
                                                      "sw_thermal_slowdown",
                                                      "hw_thermal_slowdown",
                                                      "hw_power_brake_slowdown",
                                                      "display_clock_setting"};

/// nvmlUtilization_t as nvmlDeviceGetUtilizationRates fills it.
struct Utilization {
  unsigned gpu_percent;
  unsigned memory_percent;
};

/// nvmlGpuFabricInfo_t as nvmlDeviceGetGpuFabricInfo fills it.
struct FabricInfo {
  std::array<unsigned char, 16> cluster;
  int status;
  unsigned clique;
  unsigned char state;
};
constexpr std::array<const char*, 4> fabric_states{"not_supported", "not_started", "in_progress",
                                                   "completed"};
constexpr unsigned char fabric_completed = 3;

/// nvmlGridLicensableFeatures_t as nvmlDeviceGetGridLicensableFeatures_v4 fills it.
struct LicenseExpiry {
  unsigned year;
  unsigned short month, day, hour, minute, second;
  unsigned char status;
};
struct LicensableFeature {
  int code;
  unsigned state;  ///< not zero: licensed
  std::array<char, 128> info;
  std::array<char, 128> product;
  unsigned enabled;
  LicenseExpiry expiry;
};
struct LicensableFeatures {
  int supported;
  unsigned count;
  std::array<LicensableFeature, 3> features;
};

}  // namespace

std::vector<std::string> throttle_reason_names(std::uint64_t bits) {
  std::vector<std::string> names;
  for (unsigned bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1U) == 0) { continue; }
    names.push_back(bit < throttle_reasons.size() ? throttle_reasons[bit] : "bit " + std::to_string(bit));
  }
  return names;
}

std::string sharing_words(const GpuHealth& health) {
  const unsigned processes = health.compute_processes.value_or(0);
  if (processes < 2) { return ""; }
  return "; " + std::to_string(processes) +
         " processes use the GPU, this one included (nvidia-smi lists them)";
}

/// The loaded library. A function that this driver does not have, or that fails for this GPU, is no value.
struct Nvml::Library {
  explicit Library(const std::string& path)
      : name(path), handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) { throw unable(dlerror(), "install NVIDIA's driver, whose library this is"); }
    const std::optional<int> status = call<>("nvmlInit_v2");
    if (status != success) {
      const std::string words = status ? error_text(*status) : "it has no nvmlInit_v2";
      dlclose(handle);
      throw unable(words, "nvidia-smi shows whether the driver works");
    }
  }
  ~Library() {
    call<>("nvmlShutdown");
    dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Error unable(const std::string& words, const std::string& advice) const {
    return Error("load " + name, ErrorCode::host_unable, words + " (" + advice + ")");
  }

  /// NVML's status; nothing if the library has no such function.
  template <typename... Arguments>
  std::optional<int> call(const char* function, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto address = reinterpret_cast<Function>(dlsym(handle, function));
    if (address == nullptr) { return std::nullopt; }
    return address(arguments...);
  }

  std::string error_text(int status) const {
    using Function = const char* (*)(int);
    const auto address = reinterpret_cast<Function>(dlsym(handle, "nvmlErrorString"));
    return address == nullptr ? "NVML status " + std::to_string(status) : address(status);
  }

  template <typename Value, typename... Arguments>
  std::optional<Value> get(const char* function, Device device, Arguments... arguments) const {
    Value value{};
    if (call(function, device, arguments..., &value) != success) { return std::nullopt; }
    return value;
  }

  /// The first of two values that a function returns.
  std::optional<bool> get_flag(const char* function, Device device) const {
    unsigned current = 0;
    unsigned pending = 0;
    if (call(function, device, &current, &pending) != success) { return std::nullopt; }
    return current != 0;
  }

  std::optional<bool> row_remap_pending(Device device) const {
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed) != success) {
      return std::nullopt;
    }
    return pending != 0 || failed != 0;
  }

  std::optional<unsigned> compute_processes(Device device) const {
    unsigned processes = 0;
    void* const no_room = nullptr;
    const auto counted = call("nvmlDeviceGetComputeRunningProcesses_v3", device, &processes, no_room);
    if (counted != success && counted != insufficient_size) { return std::nullopt; }
    return processes;
  }

  std::optional<std::string> get_text(const char* function, Device device) const {
    std::array<char, 128> text{};
    if (call(function, device, text.data(), static_cast<unsigned>(text.size() - 1)) != success) {
      return std::nullopt;
    }
    return text.data();
  }

  std::optional<std::string> driver() const {
    std::array<char, 128> text{};
    const auto size = static_cast<unsigned>(text.size() - 1);
    if (call("nvmlSystemGetDriverVersion", text.data(), size) != success) { return std::nullopt; }
    return text.data();
  }

  Device find(const std::string& pci_address) const {
    Device device = nullptr;
    const std::optional<int> status = call("nvmlDeviceGetHandleByPciBusId_v2", pci_address.c_str(), &device);
    if (status == success) { return device; }
    throw Error("find the GPU " + pci_address, ErrorCode::not_found,
                (status ? error_text(*status) : name + " has no nvmlDeviceGetHandleByPciBusId_v2") +
                    " (nvidia-smi -L lists the GPUs)");
  }

  std::string name;
  void* handle;
};

namespace {

std::optional<double> thousandth(const std::optional<unsigned>& value) {
  if (!value) { return std::nullopt; }
  return *value / 1000.0;
}

/// Whether any enabled feature of a vGPU is licensed. Elsewhere there is nothing to license.
std::optional<bool> licensed(const std::optional<LicensableFeatures>& features) {
  if (!features || features->supported == 0) { return std::nullopt; }
  bool any_enabled = false;
  for (unsigned i = 0; i < features->count && i < features->features.size(); ++i) {
    if (features->features[i].enabled == 0) { continue; }
    any_enabled = true;
    if (features->features[i].state != 0) { return true; }
  }
  if (!any_enabled) { return std::nullopt; }
  return false;
}

std::optional<std::string> fabric_state_name(const std::optional<FabricInfo>& info) {
  if (!info) { return std::nullopt; }
  if (info->state == fabric_completed && info->status != success) { return "failed"; }
  return info->state < fabric_states.size() ? fabric_states[info->state]
                                            : "state " + std::to_string(info->state);
}

std::optional<std::string> mode_name(const std::optional<unsigned>& mode) {
  if (!mode) { return std::nullopt; }
  return *mode < virtualization_modes.size() ? virtualization_modes[*mode] : "mode " + std::to_string(*mode);
}

}  // namespace

Nvml::Nvml(const std::string& library) : library_(std::make_unique<Library>(library)) {}
Nvml::~Nvml() = default;
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;

GpuIdentity Nvml::identity(const std::string& pci_address) const {
  const Library& nvml = *library_;
  const Device device = nvml.find(pci_address);
  GpuIdentity identity;
  identity.name = nvml.get_text("nvmlDeviceGetName", device);
  identity.uuid = nvml.get_text("nvmlDeviceGetUUID", device);
  identity.driver = nvml.driver();
  identity.vbios = nvml.get_text("nvmlDeviceGetVbiosVersion", device);
  identity.power_limit_w = thousandth(nvml.get<unsigned>("nvmlDeviceGetEnforcedPowerLimit", device));
  identity.most_sm_clock_mhz = nvml.get<unsigned>("nvmlDeviceGetMaxClockInfo", device, sm_clock);
  identity.application_clock_mhz =
      nvml.get<unsigned>("nvmlDeviceGetApplicationsClock", device, graphics_clock);
  identity.ecc_enabled = nvml.get_flag("nvmlDeviceGetEccMode", device);
  identity.pcie_generation = nvml.get<unsigned>("nvmlDeviceGetCurrPcieLinkGeneration", device);
  identity.pcie_width = nvml.get<unsigned>("nvmlDeviceGetCurrPcieLinkWidth", device);
  identity.best_pcie_generation = nvml.get<unsigned>("nvmlDeviceGetMaxPcieLinkGeneration", device);
  identity.best_pcie_width = nvml.get<unsigned>("nvmlDeviceGetMaxPcieLinkWidth", device);
  identity.mig_enabled = nvml.get_flag("nvmlDeviceGetMigMode", device);
  identity.virtualization = mode_name(nvml.get<unsigned>("nvmlDeviceGetVirtualizationMode", device));
  identity.licensed =
      licensed(nvml.get<LicensableFeatures>("nvmlDeviceGetGridLicensableFeatures_v4", device));
  return identity;
}

GpuState Nvml::state(const std::string& pci_address) const {
  const Library& nvml = *library_;
  const Device device = nvml.find(pci_address);
  using Wide = unsigned long long;
  GpuState state;
  state.sm_clock_mhz = nvml.get<unsigned>("nvmlDeviceGetClockInfo", device, sm_clock);
  state.memory_clock_mhz = nvml.get<unsigned>("nvmlDeviceGetClockInfo", device, memory_clock);
  state.temperature_c = nvml.get<unsigned>("nvmlDeviceGetTemperature", device, gpu_temperature);
  state.power_w = thousandth(nvml.get<unsigned>("nvmlDeviceGetPowerUsage", device));
  if (const auto energy_mj = nvml.get<Wide>("nvmlDeviceGetTotalEnergyConsumption", device)) {
    state.energy_j = static_cast<double>(*energy_mj) / 1000;
  }
  auto bits = nvml.get<Wide>("nvmlDeviceGetCurrentClocksEventReasons", device);  // since driver 535
  if (!bits) { bits = nvml.get<Wide>("nvmlDeviceGetCurrentClocksThrottleReasons", device); }
  if (bits) { state.throttle_reasons = throttle_reason_names(*bits); }
  return state;
}

GpuHealth Nvml::health(const std::string& pci_address) const {
  const Library& nvml = *library_;
  const Device device = nvml.find(pci_address);
  GpuHealth health;
  health.uncorrected_ecc_errors = nvml.get<unsigned long long>("nvmlDeviceGetTotalEccErrors", device,
                                                               uncorrected_errors, since_driver_load);
  health.row_remap_pending = nvml.row_remap_pending(device);
  health.fabric_state = fabric_state_name(nvml.get<FabricInfo>("nvmlDeviceGetGpuFabricInfo", device));
  health.compute_processes = nvml.compute_processes(device);
  return health;
}

GpuUse Nvml::use(const std::string& pci_address) const {
  const Library& nvml = *library_;
  const Device device = nvml.find(pci_address);
  GpuUse use;
  use.compute_processes = nvml.compute_processes(device);
  if (const auto rates = nvml.get<Utilization>("nvmlDeviceGetUtilizationRates", device)) {
    use.busy_percent = rates->gpu_percent;
  }
  return use;
}

nlohmann::json to_json(const GpuIdentity& identity) {
  return {described(&protocol::GpuRecord::name, identity.name),
          described(&protocol::GpuRecord::uuid, identity.uuid),
          described(&protocol::GpuRecord::driver, identity.driver),
          described(&protocol::GpuRecord::vbios, identity.vbios),
          described(&protocol::GpuRecord::power_limit_w, identity.power_limit_w),
          {"most_sm_clock_mhz", or_null(identity.most_sm_clock_mhz)},
          described(&protocol::GpuRecord::application_clock_mhz, identity.application_clock_mhz),
          described(&protocol::GpuRecord::ecc_enabled, identity.ecc_enabled),
          {"pcie_generation", or_null(identity.pcie_generation)},
          {"pcie_width", or_null(identity.pcie_width)},
          described(&protocol::GpuRecord::best_pcie_generation, identity.best_pcie_generation),
          described(&protocol::GpuRecord::best_pcie_width, identity.best_pcie_width),
          described(&protocol::GpuRecord::mig_enabled, identity.mig_enabled),
          described(&protocol::GpuRecord::virtualization, identity.virtualization),
          described(&protocol::GpuRecord::licensed, identity.licensed)};
}

nlohmann::json to_json(const GpuState& state) {
  return {{"sm_clock_mhz", or_null(state.sm_clock_mhz)},
          {"memory_clock_mhz", or_null(state.memory_clock_mhz)},
          {"temperature_c", or_null(state.temperature_c)},
          {"power_w", or_null(state.power_w)},
          {"energy_j", or_null(state.energy_j)},
          described(&protocol::GpuRecord::throttle_reasons, state.throttle_reasons)};
}

nlohmann::json to_json(const GpuHealth& health) {
  return {described(&protocol::GpuRecord::uncorrected_ecc_errors, health.uncorrected_ecc_errors),
          described(&protocol::GpuRecord::row_remap_pending, health.row_remap_pending),
          described(&protocol::GpuRecord::fabric_state, health.fabric_state),
          {"compute_processes", or_null(health.compute_processes)}};
}

}  // namespace virtrain
