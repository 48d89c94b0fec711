#include "harness/execute/preflight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "harness/execute/cuda_host.h"
#include "harness/plan/device_demand.h"
#include "vmctl/cloud/cloud_image.h"
#include "vmctl/doctor.h"
#include "vmctl/libvirt_daemon.h"

namespace virtrain::harness {
namespace {

/// The CPU trainer's bf16 needs AVX-512's instructions for it, which QEMU does not emulate.
void check_bf16(const Scenario& scenario, const vmctl::Inventory& inventory,
                std::vector<std::string>& reasons) {
  const auto& flags = inventory.cpu_flags;
  const bool host_can = std::find(flags.begin(), flags.end(), "avx512_bf16") != flags.end();
  const bool guest_can = host_can && !expects_emulation(inventory);
  if (host_can && (guest_can || !has_arm(scenario, kArmVm))) return;
  for (const auto& placement : scenario.cases)
    for (const auto& tenant : placement.tenants)
      if (tenant.workload.backend == Backend::cpu && tenant.workload.precision == Precision::bf16)
        reasons.push_back(fmt::format(
            "case {}: {} trains in bf16, but {} no avx512_bf16 (use precision fp32{})", placement.name,
            tenant.name, host_can ? "VMs are emulated here and their CPU has" : "this host's CPU has",
            host_can ? ", or a host with KVM" : ""));
}

void check_session(const Scenario& scenario, std::vector<std::string>& reasons) {
  for (const auto& placement : scenario.cases)
    for (const auto& tenant : placement.tenants)
      if (tenant.nodes > 1)
        reasons.push_back(
            fmt::format("case {}: {} has {} VMs, and qemu:///session can make no network for them (use "
                        "qemu:///system, or tenants of one node)",
                        placement.name, tenant.name, tenant.nodes));
}

void add_what_blocks(const std::vector<vmctl::Finding>& findings, std::vector<std::string>& reasons) {
  for (const auto& finding : findings)
    if (vmctl::blocks(finding))
      reasons.push_back(fmt::format("{}: {} ({})", finding.id, finding.found, finding.fix));
}

void check_devices(const Scenario& scenario, const Plan& plan, const vmctl::Inventory& inventory,
                   const std::string& connect_uri, std::vector<std::string>& reasons) {
  auto findings = vmctl::examine_devices(inventory, device_demands(plan, scenario));
  // The plan has none with users, nor one that another run of ours holds and that can be waited for.
  std::erase_if(findings, [](const auto& finding) { return finding.id == "USE-1"; });
  add_what_blocks(findings, reasons);
  if (::geteuid() != 0) reasons.emplace_back("devices: binding them to another driver needs root");
  if (is_session_uri(connect_uri))
    reasons.emplace_back("devices: qemu:///session cannot lend any (use qemu:///system)");
  const auto& token = scenario.devices.licence_token;
  if (!token.empty() && ::access(token.c_str(), R_OK) != 0)
    reasons.push_back("devices: the licence token " + printable(token) + " cannot be read");
  if (scenario.reuse == Reuse::experiment_case && scenario.devices.kind == DeviceKind::passthrough &&
      scenario.arms.size() > 1)
    reasons.emplace_back(
        "reuse: case would keep the devices in VMs while bare metal needs them (use reuse: trial)");
}

void check_vm_arm(const Scenario& scenario, const vmctl::Inventory& inventory, const std::string& connect_uri,
                  std::vector<std::string>& reasons) {
  const bool session = is_session_uri(connect_uri);
  if (!session && connect_uri != "qemu:///system") {
    reasons.push_back(
        fmt::format("--connect {}: VMs of this host only (allowed: qemu:///system, qemu:///session)",
                    printable(connect_uri)));
    return;
  }
  if (session && ::geteuid() == 0) {
    reasons.push_back(
        "--connect qemu:///session: libvirt has sessions for other users than root (use qemu:///system)");
    return;
  }
  if (!scenario.guest.is_mirror()) {
    try {
      vmctl::inspect_cloud_image(scenario.guest.image);
    } catch (const Error& error) {
      reasons.emplace_back(error.what());
    }
  }
  auto findings = vmctl::examine_host(inventory);
  // The doctor looks for the system's libvirt, which a session does without.
  if (session) std::erase_if(findings, [](const auto& finding) { return finding.id == "VIRT-1"; });
  add_what_blocks(findings, reasons);
  std::string why;
  if (::geteuid() != 0 && !vmctl::libvirt_answers(connect_uri, &why))
    reasons.push_back(fmt::format(
        "libvirt does not answer at {}: {} (start libvirtd, or run as root and virtrain starts it)",
        connect_uri, why));
  if (session) check_session(scenario, reasons);
}

}  // namespace

bool is_session_uri(const std::string& connect_uri) {
  return connect_uri == "qemu:///session";
}

void check_host(const Scenario& scenario, const Plan& plan, const vmctl::Inventory& inventory,
                const std::string& connect_uri) {
  std::vector<std::string> reasons;
  if (scenario.devices.kind != DeviceKind::none)
    check_devices(scenario, plan, inventory, connect_uri, reasons);
  if (uses_cuda(plan)) {
    const auto missing = cuda_reasons(scenario, plan, look_at_cuda_host());
    reasons.insert(reasons.end(), missing.begin(), missing.end());
  }
  check_bf16(scenario, inventory, reasons);
  if (has_arm(scenario, kArmVm)) check_vm_arm(scenario, inventory, connect_uri, reasons);
  if (has_arm(scenario, kArmBareMetal) && ::geteuid() != 0)
    reasons.push_back(
        "arm bare_metal isolates its slices with namespaces, which needs root (run as root, or use arm "
        "bare_metal_shared)");
  if (!reasons.empty()) throw Error("run " + scenario.name, ErrorCode::host_unable, join(reasons, "\n"));
}

}  // namespace virtrain::harness
