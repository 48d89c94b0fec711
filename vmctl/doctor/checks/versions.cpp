#include <array>

#include "vmctl/doctor/checks/tables.h"
#include "vmctl/doctor/checks/words.h"
#include "vmctl/machine/version_limits.h"

namespace virtrain::vmctl {
namespace {

/// Devices that VMs get: as planned, or without a plan every GPU in the form that it offers.
std::vector<PlacedDevice> wanted(const DeviceHost& host) {
  if (host.demand) { return host.demand->devices(); }
  std::vector<PlacedDevice> devices;
  for (const auto* gpu : host.gpus()) {
    const auto kind = gpu->mechanism == Mechanism::mdev          ? GrantKind::mdev
                      : gpu->mechanism == Mechanism::vendor_vfio ? GrantKind::vendor_vfio
                                                                 : GrantKind::passthrough;
    if (gpu->mechanism != Mechanism::none) { devices.push_back(placed({kind, gpu->function.address}, *gpu)); }
  }
  return devices;
}

bool has_libvirt(const DeviceHost& host) {
  return has_devices(host) && !host.words.versions.libvirt.empty();
}

CheckAnswer libvirt_can(const DeviceHost& host) {
  const auto clique = host.demand ? host.demand->clique : Clique::off;
  Words limits;
  for (const auto program : {Program::libvirt, Program::kernel}) {
    for (auto& limit :
         version_limits(wanted(host), clique, host.words.versions, host.inventory.kernel, program)) {
      limits.push_back(std::move(limit));
    }
  }
  return none_of(limits, "libvirt " + host.words.versions.libvirt,
                 "upgrade (Debian 13 has libvirt 11.3, Ubuntu 24.04 has 10.0), or plan other devices");
}

bool wants_more_of_qemu(const DeviceHost& host) {
  if (host.words.versions.hypervisor.empty()) { return false; }
  if (!host.demand) { return host.gpus().size() > 1; }
  const auto devices = host.demand->devices();
  return host.demand->clique != Clique::off ||
         std::ranges::any_of(devices, [](const auto& device) { return device.vfio == Vfio::iommufd; });
}

CheckAnswer qemu_can(const DeviceHost& host) {
  const auto clique = host.demand ? host.demand->clique : Clique::all;
  auto answer = none_of(
      version_limits(wanted(host), clique, host.words.versions, "", Program::qemu),
      host.words.versions.hypervisor,
      "upgrade QEMU, or run without what needs it (clique: off; NVLink does not need PCIe peer-to-peer)");
  if (!host.demand) { answer.severity = Severity::warns; }
  return answer;
}

bool has_huge_bars(const DeviceHost& host) {
  const auto gpus = host.gpus();
  return std::ranges::any_of(gpus, [](const auto* gpu) { return has_huge_region(gpu->function.bars); });
}

CheckAnswer huge_bars_are_mapped_whole(const DeviceHost& host) {
  const auto kernel = "Linux " + host.inventory.kernel;
  const auto& qemu = host.words.versions.hypervisor;
  Words old;
  if (!is_since(kernel, 6, 12)) { old.push_back(kernel); }
  if (!is_since(qemu, 9, 2)) { old.push_back(qemu); }
  constexpr std::int64_t second_ns = 1'000'000'000;
  const auto timeout_ns = host.demand ? host.demand->boot_timeout_ns : 0;
  if (!old.empty() && timeout_ns > 0 && timeout_ns < slow_boot_timeout_ns) {
    return {fmt::format("BARs of 64 GiB and more are mapped page by page by {}, which takes minutes, and "
                        "boot_timeout is {} s",
                        join(old, " and "), timeout_ns / second_ns),
            fmt::format("raise boot_timeout to {} s or more", slow_boot_timeout_ns / second_ns)};
  }
  return none_of(
      old.empty() ? old : Words{"BARs of 64 GiB and more are mapped page by page by " + join(old, " and ")},
      kernel + (qemu.empty() ? "" : ", " + qemu),
      "expect minutes until a guest has probed its GPUs (raise boot_timeout); Linux 6.12 with QEMU "
      "9.2 does it at once");
}

}  // namespace

std::span<const DeviceCheck> version_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"VER-1", Severity::blocks, "libvirt is new enough for the planned devices",
                  "there are GPUs, or a scenario names devices, and libvirt is installed", has_libvirt,
                  libvirt_can},
      DeviceCheck{"VER-2", Severity::blocks, "QEMU is new enough for the planned devices",
                  "QEMU is installed and a scenario has devices.clique or iommufd, or there are several GPUs",
                  wants_more_of_qemu, qemu_can},
      DeviceCheck{"VER-3", Severity::warns, "kernel and QEMU map BARs of 64 GiB and more at once",
                  "a GPU has a BAR of 64 GiB or more", has_huge_bars, huge_bars_are_mapped_whole},
  };
  return checks;
}

}  // namespace virtrain::vmctl
