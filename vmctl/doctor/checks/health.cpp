#include <array>

#include "common/contains.h"
#include "vmctl/api/limits/fabric.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/doctor/checks/words.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* reported = "nvidia-smi answers for a GPU";
bool has_reports(const DeviceHost& host) {
  return any_report(host.gpus(), host, [](const GpuReport& /*report*/) { return true; });
}

CheckAnswer memory_is_sound(const DeviceHost& host) {
  const auto offenders = each_report(host.gpus(), host, [](const GpuReport& report) {
    Words wrong;
    if (report.repair_failed.value_or(false)) { wrong.emplace_back("could not remap a row"); }
    if (report.repair_pending.value_or(false)) { wrong.emplace_back("has rows to remap or pages to retire"); }
    if (const auto errors = report.uncorrected_ecc_errors.value_or(0); errors > 0) {
      wrong.push_back(fmt::format("has had {} uncorrected ECC errors since its driver was loaded", errors));
    }
    if (report.ecc != report.ecc_pending) { wrong.emplace_back("changes its ECC mode at the next reset"); }
    return join(wrong, " and ");
  });
  return none_of(
      offenders, "no error, nothing pending, ECC modes as they stay",
      "reset the GPU (nvidia-smi -i ADDRESS -r), replace it if it comes back; ECC must be the same "
      "in all arms");
}

/// "250 W of 300 W" of GPUs whose limit is not their own: of use where figures are compared.
std::string power_limits(const DeviceHost& host) {
  return join(
      each_report(host.gpus(), host,
                  [](const GpuReport& report) -> std::string {
                    if (!report.power_limit_w || report.power_limit_w == report.default_power_limit_w) {
                      return "";
                    }
                    return fmt::format("is limited to {:g} W", *report.power_limit_w);
                  }),
      "; ");
}

CheckAnswer clocks_are_free(const DeviceHost& host) {
  const auto offenders = each_report(host.gpus(), host, [](const GpuReport& report) -> std::string {
    return report.slowdowns.empty() ? "" : "is slowed down: " + join(report.slowdowns, ", ");
  });
  const auto limited = power_limits(host);
  return none_of(offenders,
                 "no thermal slowdown and no power brake" + (limited.empty() ? "" : "; " + limited),
                 "look at airflow, power supplies and the board's power brake; restore the limits");
}

/// NVSwitches that the host keeps: those that a VM has are its own business.
bool has_nvswitches(const DeviceHost& host) {
  std::vector<HostDevice> kept;
  for (const auto& device : host.inventory.devices) {
    if (device.function.driver != "vfio-pci") { kept.push_back(device); }
  }
  return has_gpus(host) && has_nvlink_switches(kept);
}

CheckAnswer fabric_is_up(const DeviceHost& host) {
  Words offenders;
  if (processes_named(host, {"nv-fabricmanage"}).empty()) {  // a name has 15 characters
    offenders.emplace_back("the Fabric Manager does not run");
  }
  const auto driver = loaded_nvidia_driver(host.root).value_or("");
  const auto& manager = host.words.fabric_manager;
  if (!driver.empty() && !manager.empty() && driver != manager) {
    offenders.push_back(fmt::format("Fabric Manager {} with driver {}", manager, driver));
  }
  for (const auto& line : each_report(host.gpus(), host, [](const GpuReport& report) -> std::string {
         const bool waits = !report.fabric_state.empty() && report.fabric_state != "Completed";
         const bool failed = !report.fabric_status.empty() && report.fabric_status != "Success";
         return waits ? "has its fabric " + report.fabric_state : failed ? report.fabric_status : "";
       })) {
    offenders.push_back(line);
  }
  return none_of(offenders, "Fabric Manager runs, of the driver's version",
                 "systemctl enable --now nvidia-fabricmanager, of the driver's very version; else CUDA fails "
                 "with 802 (system not yet initialized)");
}

/// Judges the plan's VMs; without a plan, a VM with two of the board's GPUs.
CheckAnswer vms_have_a_fabric(const DeviceHost& host) {
  Words lacks;
  bool is_certain = false;
  const auto look = [&](const std::vector<PlacedDevice>& devices) {
    const auto lack = fabric_lack(host.inventory, devices);
    if (!lack.words.empty() && !contains(lacks, lack.words)) { lacks.push_back(lack.words); }
    is_certain = is_certain || (!lack.words.empty() && lack.is_certain);
  };
  if (host.demand) {
    for (const auto& vm : host.demand->vms) { look(vm.devices); }
  } else {
    std::vector<PlacedDevice> two;
    const auto active = active_partitions(host.inventory);
    for (const auto* gpu : host.gpus()) {
      const bool is_in = active.empty() || contains(active.front(), gpu->function.address);
      if (is_in && two.size() < (active.empty() ? 2 : active.front().size())) {
        two.push_back(placed({GrantKind::passthrough, gpu->function.address}, *gpu));
      }
    }
    look(two);
  }
  auto answer = none_of(lacks, "VMs with several GPUs have active partitions of the Fabric Manager",
                        "docs/gpu-host.md, HGX boards");
  answer.severity = host.demand && is_certain ? Severity::blocks : Severity::warns;
  return answer;
}

}  // namespace

std::span<const DeviceCheck> health_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"ECC-1", Severity::invalidates,
                  "GPU memory has no uncorrected error and no repair pending, and ECC modes stay", reported,
                  has_reports, memory_is_sound},
      DeviceCheck{"CLK-1", Severity::invalidates, "no GPU is slowed down by heat or by its power supply",
                  reported, has_reports, clocks_are_free},
      DeviceCheck{"FAB-1", Severity::blocks,
                  "the Fabric Manager runs in the driver's version, and the NVSwitch fabric is up",
                  "there are GPUs, and NVSwitches that the host keeps", has_nvswitches, fabric_is_up},
      DeviceCheck{"FAB-2", Severity::blocks,
                  "VMs with several GPUs have active partitions of the Fabric Manager",
                  "there are GPUs, and NVSwitches that the host keeps", has_nvswitches, vms_have_a_fabric},
  };
  return checks;
}

}  // namespace virtrain::vmctl
