#include "harness/execute/preflight.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "vmctl/doctor.h"
#include "vmctl/libvirt_daemon.h"

namespace virtrain::harness {
namespace {

bool has_arm(const Scenario& scenario, const char* arm) {
  return std::find(scenario.arms.begin(), scenario.arms.end(), arm) != scenario.arms.end();
}

void check_vm_arm(const std::string& connect_uri, std::vector<std::string>& reasons) {
  for (const auto& finding : vmctl::examine_host())
    if (finding.severity == vmctl::Severity::blocks && finding.status == vmctl::CheckStatus::failed)
      reasons.push_back(fmt::format("{}: {} ({})", finding.id, finding.found, finding.fix));
  std::string why;
  if (::geteuid() != 0 && !vmctl::libvirt_answers(connect_uri, &why))
    reasons.push_back(fmt::format(
        "libvirt does not answer at {}: {} (start libvirtd, or run as root and virtrain starts it)",
        connect_uri, why));
}

}  // namespace

void check_host(const Scenario& scenario, const std::string& connect_uri) {
  std::vector<std::string> reasons;
  if (scenario.devices.kind != DeviceKind::none)
    reasons.push_back(
        fmt::format("devices: kind {} is planned but not yet run by this version (allowed: none)",
                    to_string(scenario.devices.kind)));
  for (const auto& placement : scenario.cases)
    for (const auto& tenant : placement.tenants)
      if (tenant.workload.backend == Backend::cuda) {
        reasons.push_back(
            fmt::format("case {}: backend cuda has no trainer in this build (allowed: cpu)", placement.name));
        break;
      }
  if (has_arm(scenario, kArmVm)) check_vm_arm(connect_uri, reasons);
  if (has_arm(scenario, kArmBareMetal) && ::geteuid() != 0)
    reasons.push_back(
        "arm bare_metal isolates its slices with namespaces, which needs root (run as root, or use arm "
        "bare_metal_shared)");
  if (!reasons.empty()) throw Error("run " + scenario.name, ErrorCode::host_unable, join(reasons, "\n"));
}

}  // namespace virtrain::harness
