#include "harness/experiment/cuda_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace virtrain::harness {
namespace {

void add_foreign_devices(const Placement& placement, const TenantPlacement& tenant,
                         std::vector<std::string>& reasons) {
  for (const auto& node : tenant.nodes) {
    for (const auto& device : node.devices) {
      // The vendor of a virtual function that is yet to be made is not known.
      const bool known = !device.vendor.empty();
      if (known && device.device_class == vmctl::DeviceClass::gpu && device.vendor != vmctl::nvidia) {
        reasons.push_back(fmt::format("case {}: backend cuda needs NVIDIA GPUs, and {} is {} (vendor {})",
                                      placement.case_name, device.grant.address, device.name, device.vendor));
      }
    }
  }
}

bool trains_with_cuda(const Plan& plan, std::int64_t least_ranks) {
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      if (tenant.workload.backend == Backend::cuda && tenant.ranks() >= least_ranks) { return true; }
    }
  }
  return false;
}

}  // namespace

bool uses_cuda(const Plan& plan) {
  return trains_with_cuda(plan, 1);
}

std::string nccl_trouble(const std::vector<std::string>& linked) {
  for (const auto& library : linked) {
    if (std::filesystem::path(library).filename().string().starts_with("libnccl.so")) { return ""; }
  }
  return "the trainer was built without NCCL, for one rank only (install libnccl-dev and run scripts/setup "
         "again)";
}

std::vector<std::string> cuda_reasons(const Scenario& scenario, const Plan& plan,
                                      const vmctl::CudaHost& host) {
  if (!uses_cuda(plan)) { return {}; }
  std::vector<std::string> reasons;
  for (const auto& placement : plan.placements) {
    for (const auto& tenant : placement.tenants) {
      if (tenant.workload.backend == Backend::cuda) { add_foreign_devices(placement, tenant, reasons); }
    }
  }
  const auto need = [&reasons](bool applies, const std::string& trouble) {
    if (applies && !trouble.empty()) { reasons.push_back("backend cuda: " + trouble); }
  };
  need(true, host.trainer);
  need(host.trainer.empty() && trains_with_cuda(plan, 2), nccl_trouble(host.libraries));
  need(has_arm(scenario, arm_bare_metal) || has_arm(scenario, arm_bare_metal_shared), host.host_driver);
  const bool mirrors =
      std::ranges::any_of(plan.placements, [](const Placement& one) { return one.guest.is_mirror(); });
  need(has_arm(scenario, arm_vm) && mirrors, host.guest_driver);
  return reasons;
}

}  // namespace virtrain::harness
