#include "harness/plan/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace virtrain::harness {
namespace {

constexpr std::string_view kNoCudaOnVgpuHosts =
    "the host's driver for vGPUs offers no CUDA, so there is no bare metal beside a vGPU (use the arm vm "
    "only, "
    "and compare by --label or import with a passthrough VM, a vGPU of the whole card, or another host)";

constexpr std::array rules = {
    BaselineRule{DeviceKind::none, kArmBareMetal, true, "a slice of the same cores and memory"},
    BaselineRule{DeviceKind::none, kArmBareMetalShared, true, "the same cores without namespaces"},
    BaselineRule{DeviceKind::none, kArmVm, true, "virtual machines without devices"},
    BaselineRule{DeviceKind::passthrough, kArmBareMetal, true,
                 "the same GPUs, given back to the host's driver for the trial"},
    BaselineRule{DeviceKind::passthrough, kArmBareMetalShared, true, "likewise, without namespaces"},
    BaselineRule{DeviceKind::passthrough, kArmVm, true, "whole GPUs through vfio-pci"},
    BaselineRule{DeviceKind::vgpu, kArmBareMetal, false, kNoCudaOnVgpuHosts},
    BaselineRule{DeviceKind::vgpu, kArmBareMetalShared, false, kNoCudaOnVgpuHosts},
    BaselineRule{DeviceKind::vgpu, kArmVm, true, "vGPUs, as mediated devices or by vendor-specific VFIO"},
};

}  // namespace

std::span<const BaselineRule> baseline_rules() {
  return rules;
}

std::vector<std::string> impossible_arms(const Scenario& scenario) {
  std::vector<std::string> reasons;
  for (const auto& arm : scenario.arms) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const BaselineRule& one) {
      return one.kind == scenario.devices.kind && one.arm == arm;
    });
    if (rule != rules.end() && !rule->can_run) reasons.push_back(fmt::format("arm {}: {}", arm, rule->why));
  }
  return reasons;
}

}  // namespace virtrain::harness
