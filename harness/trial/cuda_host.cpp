#include "harness/trial/cuda_host.h"

#include <fmt/format.h>

#include <filesystem>

#include "common/error.h"
#include "common/subprocess.h"
#include "harness/job/programs.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/guest/mirror/guest_driver.h"
#include "vmctl/guest/mirror/guest_packages.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/process/paths.h"

namespace virtrain::harness {
namespace {

/// The words of the Error that `look` ends in; "" if it ends in none.
template <typename Look>
std::string trouble(Look&& look) {
  try {
    look();
  } catch (const Error& error) { return error.what(); }
  return "";
}

std::vector<std::string> libraries_of_trainer() {
  const auto program = vmctl::sibling_program(trainer_name(Backend::cuda));
  auto linked = vmctl::parse_ldd(program.string(), run_command({"ldd", program.string()}).out);
  vmctl::opened_at_run_time({linked.begin(), linked.end()});
  return linked;
}

void find_driver_for_guests() {
  if (!vmctl::find_guest_driver("/", vmctl::find_guest_kernel().version)) {
    throw Error("carry the NVIDIA driver into the guest", ErrorCode::host_unable,
                "this host has none (install it, or use a guest.image that has one)");
  }
}

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

CudaHost look_at_cuda_host() {
  CudaHost host;
  host.trainer = trouble([&host] { host.nccl = nccl_trouble(libraries_of_trainer()); });
  if (!vmctl::loaded_nvidia_driver("/")) {
    host.host_driver = "no NVIDIA driver is loaded (modprobe nvidia; nvidia-smi shows whether it works)";
  }
  host.guest_driver = trouble(find_driver_for_guests);
  return host;
}

std::vector<std::string> cuda_reasons(const Scenario& scenario, const Plan& plan, const CudaHost& host) {
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
  need(trains_with_cuda(plan, 2), host.nccl);
  need(has_arm(scenario, arm_bare_metal) || has_arm(scenario, arm_bare_metal_shared), host.host_driver);
  need(has_arm(scenario, arm_vm) && scenario.guest.is_mirror(), host.guest_driver);
  return reasons;
}

}  // namespace virtrain::harness
