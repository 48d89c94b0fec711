#include "harness/plan/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "common/contains.h"
#include "harness/plan/devices/device_slots.h"
#include "harness/plan/node_group.h"

namespace virtrain::harness {
namespace {

constexpr std::string_view no_cuda_on_vgpu_hosts =
    "the host's driver for vGPUs offers no CUDA, so a vGPU has no bare metal to compare with (use the arm vm "
    "only, and compare by --label or import with a passthrough VM, a vGPU of the whole card, or another "
    "host)";
constexpr std::string_view no_bare_metal_of_mig_vgpus =
    "a vGPU backed by MIG has no bare metal on its host, whose driver for vGPUs offers no CUDA (use the arm "
    "vm only, and compare by --label or import with a passthrough VM or a vGPU of the whole card)";

/// An arm that devices of this form cannot have; any other arm runs, on the same devices back on the host's
/// driver or through VFIO.
struct MissingArm {
  DeviceForm form;
  std::string_view arm;
  std::string_view why;
};
constexpr std::array missing_arms = {
    MissingArm{DeviceForm::vgpu, arm_bare_metal, no_cuda_on_vgpu_hosts},
    MissingArm{DeviceForm::vgpu, arm_bare_metal_shared, no_cuda_on_vgpu_hosts},
    MissingArm{DeviceForm::mig_backed_vgpu, arm_bare_metal, no_bare_metal_of_mig_vgpus},
    MissingArm{DeviceForm::mig_backed_vgpu, arm_bare_metal_shared, no_bare_metal_of_mig_vgpus},
};

/// In any arm's cases, for arms may differ in it.
bool erases_devices(const Scenario& scenario) {
  return std::any_of(scenario.arms.begin(), scenario.arms.end(), [](const Arm& arm) {
    return runs_in_vms(arm.base) && std::any_of(arm.cases.begin(), arm.cases.end(), [](const Case& one) {
             return one.devices.between_tenants == vmctl::BetweenTenants::erase;
           });
  });
}

/// Aggressors work in pieces, and in a second of less than that one piece is more than AGG-1 allows.
constexpr double least_sure_level = 0.001;

bool has_tiny_level(const Scenario& scenario) {
  return scenario.isolation &&
         std::any_of(scenario.isolation->neighbours.begin(), scenario.isolation->neighbours.end(),
                     [](const Neighbour& one) { return !one.is_idle() && one.level < least_sure_level; });
}

}  // namespace

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
  if (scenario.cases.empty()) { add(devices.vgpu_type); }
  for (const auto& wanted : scenario.cases) {
    for (const auto& tenant : wanted.tenants) { add(tenant.vgpu_type); }
  }
  return {forms.begin(), forms.end()};
}

std::vector<std::string> impossible_arms(const Scenario& scenario) {
  std::vector<std::string> reasons;
  for (const auto form : forms_of(scenario)) {
    for (const auto& missing : missing_arms) {
      if (missing.form == form && has_arm(scenario, std::string(missing.arm))) {
        reasons.push_back(fmt::format("arm {}: {}", missing.arm, missing.why));
      }
    }
  }
  return reasons;
}

std::vector<std::string> caveats(const Scenario& scenario) {
  std::vector<std::string> words;
  const auto forms = forms_of(scenario);
  if (contains(forms, DeviceForm::passthrough_with_mig)) {
    words.emplace_back(
        "MIG inside a passthrough guest is cut by one tenant for itself: nothing here shows isolation "
        "between tenants");
  }
  if (erases_devices(scenario)) {
    words.emplace_back("devices.between_tenants erase: a run overwrites all that is on these disks now");
  }
  if (has_tiny_level(scenario)) {
    words.emplace_back(
        "levels below 0.1% are less than a piece of an aggressor's work in a second: its trials may fail, or "
        "be invalid by AGG-1 (use higher levels)");
  }
  if (scenario.security && scenario.devices.kind != DeviceKind::none && has_arm(scenario, arm_vm)) {
    words.emplace_back(
        "leak searches overwrite the memory of one of the devices; a disk that holds data is left alone "
        "unless devices.between_tenants erases it");
  }
  return words;
}

}  // namespace virtrain::harness
