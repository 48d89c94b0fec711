#include "harness/plan/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "harness/plan/device_slots.h"

namespace virtrain::harness {
namespace {

constexpr std::string_view kNoCudaOnVgpuHosts =
    "the host's driver for vGPUs offers no CUDA, so there is no bare metal beside a vGPU (use the arm vm "
    "only, and compare by --label or import with a passthrough VM, a vGPU of the whole card, or another "
    "host)";
constexpr std::string_view kNoBareMetalOfMigVgpus =
    "a vGPU backed by MIG has no bare metal on its host, whose driver for vGPUs offers no CUDA (use the arm "
    "vm only, and compare by --label or import with a passthrough VM or a vGPU of the whole card)";

constexpr std::array rules = {
    BaselineRule{DeviceForm::none, kArmBareMetal, true, "a slice of the same cores and memory"},
    BaselineRule{DeviceForm::none, kArmBareMetalShared, true, "the same cores without namespaces"},
    BaselineRule{DeviceForm::none, kArmVm, true, "virtual machines without devices"},
    BaselineRule{DeviceForm::passthrough, kArmBareMetal, true,
                 "the same GPUs, given back to the host's driver for the trial"},
    BaselineRule{DeviceForm::passthrough, kArmBareMetalShared, true, "likewise, without namespaces"},
    BaselineRule{DeviceForm::passthrough, kArmVm, true, "whole GPUs through vfio-pci"},
    BaselineRule{DeviceForm::passthrough_with_mig, kArmBareMetal, true,
                 "the same GPUs with MIG, given back to the host's driver for the trial"},
    BaselineRule{DeviceForm::passthrough_with_mig, kArmBareMetalShared, true, "likewise, without namespaces"},
    BaselineRule{DeviceForm::passthrough_with_mig, kArmVm, true,
                 "whole GPUs through vfio-pci, cut inside the guest: one tenant"},
    BaselineRule{DeviceForm::vgpu, kArmBareMetal, false, kNoCudaOnVgpuHosts},
    BaselineRule{DeviceForm::vgpu, kArmBareMetalShared, false, kNoCudaOnVgpuHosts},
    BaselineRule{DeviceForm::vgpu, kArmVm, true, "vGPUs, as mediated devices or by vendor-specific VFIO"},
    BaselineRule{DeviceForm::mig_backed_vgpu, kArmBareMetal, false, kNoBareMetalOfMigVgpus},
    BaselineRule{DeviceForm::mig_backed_vgpu, kArmBareMetalShared, false, kNoBareMetalOfMigVgpus},
    BaselineRule{DeviceForm::mig_backed_vgpu, kArmVm, true, "vGPUs, each on a MIG instance of its own"},
    BaselineRule{DeviceForm::virtual_function, kArmBareMetal, true,
                 "the physical functions, on the host's driver"},
    BaselineRule{DeviceForm::virtual_function, kArmBareMetalShared, true, "likewise, without namespaces"},
    BaselineRule{DeviceForm::virtual_function, kArmVm, true, "virtual functions through vfio-pci"},
};

}  // namespace

std::span<const BaselineRule> baseline_rules() {
  return rules;
}

const char* to_string(DeviceForm form) {
  switch (form) {
    case DeviceForm::none:
      return "no devices";
    case DeviceForm::passthrough:
      return "passthrough";
    case DeviceForm::passthrough_with_mig:
      return "MIG inside a passthrough guest";
    case DeviceForm::vgpu:
      return "vGPU";
    case DeviceForm::mig_backed_vgpu:
      return "MIG-backed vGPU";
    case DeviceForm::virtual_function:
      return "virtual function";
  }
  return "";
}

std::vector<DeviceForm> forms_of(const Scenario& scenario) {
  const auto& devices = scenario.devices;
  switch (devices.kind) {
    case DeviceKind::none:
      return {DeviceForm::none};
    case DeviceKind::passthrough:
      return {devices.settings.mig.value_or(false) ? DeviceForm::passthrough_with_mig
                                                   : DeviceForm::passthrough};
    case DeviceKind::vf:
      return {DeviceForm::virtual_function};
    case DeviceKind::vgpu:
      break;
  }
  std::set<DeviceForm> forms;
  const auto add = [&](const std::string& type) {
    forms.insert(is_mig_backed(type) ? DeviceForm::mig_backed_vgpu : DeviceForm::vgpu);
  };
  if (scenario.cases.empty()) add(devices.vgpu_type);
  for (const auto& wanted : scenario.cases)
    for (const auto& tenant : wanted.tenants) add(tenant.vgpu_type);
  return {forms.begin(), forms.end()};
}

std::vector<std::string> impossible_arms(const Scenario& scenario) {
  std::vector<std::string> reasons;
  for (const auto form : forms_of(scenario))
    for (const auto& rule : rules)
      if (rule.form == form && !rule.can_run &&
          std::find(scenario.arms.begin(), scenario.arms.end(), rule.arm) != scenario.arms.end())
        reasons.push_back(fmt::format("arm {}: {}", rule.arm, rule.why));
  return reasons;
}

std::vector<std::string> caveats(const Scenario& scenario) {
  const auto forms = forms_of(scenario);
  if (std::find(forms.begin(), forms.end(), DeviceForm::passthrough_with_mig) == forms.end()) return {};
  return {
      "MIG inside a passthrough guest is cut by one tenant for itself: nothing here shows isolation between "
      "tenants"};
}

}  // namespace virtrain::harness
