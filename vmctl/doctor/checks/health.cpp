#include <array>

#include "common/contains.h"
#include "vmctl/api/limits.h"
#include "vmctl/doctor/checks/tables.h"

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

bool tells_power(const DeviceHost& host) {
  return any_report(host.gpus(), host, [](const GpuReport& report) {
    return report.power_limit_w.has_value() && report.default_power_limit_w.has_value();
  });
}

CheckAnswer power_limits_are_default(const DeviceHost& host) {
  const auto offenders = each_report(host.gpus(), host, [](const GpuReport& report) -> std::string {
    if (!report.power_limit_w || !report.default_power_limit_w ||
        *report.power_limit_w == *report.default_power_limit_w) {
      return "";
    }
    return fmt::format("is limited to {:g} W, its default is {:g} W", *report.power_limit_w,
                       *report.default_power_limit_w);
  });
  return none_of(
      offenders, "every GPU has its default power limit",
      "nvidia-smi -i ADDRESS -pl WATTS, or say the limit next to the figures: it must be the same in all "
      "arms");
}

bool shares_gpus(const DeviceHost& host) {
  const bool shares =
      host.demand ? host.demand->several_tenants : any_report(host.gpus(), host, [](const GpuReport& report) {
        return report.virtualization == "Host VGPU";
      });
  return shares &&
         any_report(host.gpus(), host, [](const GpuReport& report) { return report.ecc.has_value(); });
}

CheckAnswer ecc_protects_tenants(const DeviceHost& host) {
  const auto offenders = each_report(host.gpus(), host, [](const GpuReport& report) {
    return report.ecc.value_or(true) ? "" : "has ECC off";
  });
  return none_of(
      offenders, "ECC is on",
      "nvidia-smi -i ADDRESS -e 1, then reset the GPU: without it a tenant can flip bits of another's "
      "memory on the same card (Rowhammer); it costs some memory and bandwidth, in all arms alike");
}

bool tells_licence(const DeviceHost& host) {
  return any_report(host.gpus(), host, [](const GpuReport& report) {
    return report.virtualization == "VGPU" && !report.licence.empty();
  });
}

CheckAnswer vgpus_are_licensed(const DeviceHost& host) {
  const auto offenders = each_report(host.gpus(), host, [](const GpuReport& report) -> std::string {
    return report.licence.empty() || report.licence.starts_with("Licensed")
               ? ""
               : "has no licence: " + report.licence;
  });
  return none_of(offenders, "the vGPU is licensed",
                 "a vGPU without a licence slows down after some 20 minutes: put the token into "
                 "/etc/nvidia/ClientConfigToken, set the clock, restart nvidia-gridd");
}

/// AMD's GPUs on the host's own driver.
std::vector<const HostDevice*> amd_gpus(const DeviceHost& host) {
  std::vector<const HostDevice*> found;
  for (const auto& device : host.inventory.other_devices) {
    const auto& pci = device.function;
    if (pci.vendor == "0x1002" && pci.is_accelerator() && pci.driver == "amdgpu") {
      found.push_back(&device);
    }
  }
  return found;
}

/// "1 0 1": of each partition; nothing where the driver does not know of it, or nobody recorded it.
std::optional<std::string> isolation_of(const HostDevice& gpu) {
  return read_value(gpu.function.folder / "enforce_isolation");
}

bool tells_isolation(const DeviceHost& host) {
  const auto gpus = amd_gpus(host);
  return std::ranges::any_of(gpus, [](const auto* gpu) { return isolation_of(*gpu).has_value(); });
}

CheckAnswer processes_are_cleared(const DeviceHost& host) {
  const auto offenders = each(amd_gpus(host), [](const HostDevice& gpu) {
    const auto modes = isolation_of(gpu).value_or("1");
    return modes.find('0') == std::string::npos ? "" : "leaves local memory and registers as they were";
  });
  return none_of(
      offenders, "local memory is cleared between processes",
      "where several users share the card: echo 1 > /sys/bus/pci/devices/ADDRESS/enforce_isolation (a "
      "1 for each partition); processes then take turns");
}

CheckAnswer clocks_are_free(const DeviceHost& host) {
  const auto offenders = each_report(host.gpus(), host, [](const GpuReport& report) -> std::string {
    return report.slowdowns.empty() ? "" : "is slowed down: " + join(report.slowdowns, ", ");
  });
  return none_of(offenders, "no thermal slowdown and no power brake",
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
      DeviceCheck{"PWR-1", Severity::warns, "GPUs have their default power limit",
                  "nvidia-smi tells a GPU's power limit and its default", tells_power,
                  power_limits_are_default},
      DeviceCheck{"ECC-2", Severity::warns, "ECC protects the memory of tenants that share a card",
                  "several tenants get GPUs, or the host makes vGPUs, and nvidia-smi tells ECC", shares_gpus,
                  ecc_protects_tenants, "GPUHammer (USENIX Security 2025)"},
      DeviceCheck{"LIC-1", Severity::invalidates, "the vGPU is licensed",
                  "the host is a VM with a vGPU, and nvidia-smi tells its licence", tells_licence,
                  vgpus_are_licensed, "rapidsai/cudf#10507"},
      DeviceCheck{"LOC-1", Severity::notes, "local memory of AMD GPUs is cleared between processes",
                  "amdgpu has a GPU and tells its isolation (Linux 6.12 and later)", tells_isolation,
                  processes_are_cleared, "LeftoverLocals (CVE-2023-4969)"},
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
