#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "common/text/units.h"
#include "vmctl/doctor/checks/tables.h"
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

bool wants_iommufd(const DeviceHost& host) {
  const auto devices = host.demand ? host.demand->devices() : std::vector<PlacedDevice>();
  return std::ranges::any_of(devices, [](const auto& device) { return device.vfio == Vfio::iommufd; });
}

CheckAnswer iommufd_maps_what_is_needed(const DeviceHost& host) {
  const auto& vms = host.demand->vms;
  const bool has_peers = std::ranges::any_of(vms, [](const auto& vm) { return vm.devices.size() > 1; });
  if (!has_peers || host.demand->clique == Clique::off) {
    return {"iommufd maps guest memory; no VM has devices that write to each other by PCIe"};
  }
  return {
      "devices.vfio is iommufd, which maps guest memory and no device's regions, and devices.clique tells "
      "guests "
      "that GPUs may write to each other by PCIe",
      "vfio: container for arms with PCIe peer-to-peer (NVLink does not need it), or clique: off"};
}

CheckAnswer iommufd_maps_at_once(const DeviceHost& host) {
  constexpr std::uint64_t small_bytes = 4ULL << 30;
  std::uint64_t most = 0;
  for (const auto& vm : host.demand->vms) { most = std::max(most, vm.memory_bytes); }
  if (host.demand->hugepages || most <= small_bytes) {
    return {"guest memory that iommufd maps is of huge pages, or of 4 GiB at most"};
  }
  return {fmt::format(
              "devices.vfio is iommufd, and {} of guest memory are of small pages, which it may map one by "
              "one: minutes before a guest of 24 GiB began to boot have been seen",
              format_size(most)),
          "guest.hugepages: true, or vfio: container, or a boot_timeout of minutes"};
}

/// Versions of NCCL that lost speed, from the first to the last that it was seen in.
struct Loss {
  std::array<int, 3> first, last;
  const char* words;
};
constexpr std::array losses = {
    Loss{{2, 16, 2},
         {2, 16, 2},
         "a tenth of the speed with GPUs that NVLink joins in pairs (NVIDIA/nccl#770)"},
    Loss{{2, 19, 3},
         {2, 19, 4},
         "all-reduce over several NVSwitch machines at 37 % (NVLSTree; pytorch/pytorch#117748)"},
    Loss{{2, 20, 3}, {2, 20, 3}, "all-reduce over four machines slower than with 2.19.3 (NVIDIA/nccl#1222)"},
    Loss{{2, 25, 1},
         {2, 27, 3},
         "rings over several machines slower than with 2.22, unless NCCL_PXN_DISABLE=1 (NVIDIA/nccl#1876)"},
    Loss{{2, 29, 0}, {2, 29, 999}, "small all-reduces slower than with 2.28 (NVIDIA/nccl#2094)"},
};

/// "2.19.3" by the folder of each libnccl.so.2.19.3, where the loader and programs look.
std::map<std::string, std::string> nccl_versions(const DeviceHost& host) {
  constexpr std::string_view prefix = "libnccl.so.";
  std::map<std::string, std::string> versions;
  for (const auto* folder :
       {"usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/local/lib", "usr/local/cuda/lib64"}) {
    for (const auto& name : names_in(host, folder)) {
      if (name.starts_with(prefix) && split(name, '.').size() == 5) {
        versions[std::string("/") + folder] = name.substr(prefix.size());
      }
    }
  }
  return versions;
}

bool has_nccl(const DeviceHost& host) {
  return !nccl_versions(host).empty();
}

CheckAnswer nccl_loses_nothing(const DeviceHost& host) {
  Words lossy, well;
  for (const auto& [folder, version] : nccl_versions(host)) {
    std::array<int, 3> numbers{};
    const auto parts = split(version, '.');
    for (std::size_t i = 0; i < std::min(parts.size(), numbers.size()); ++i) {
      numbers[i] = static_cast<int>(parse_integer(parts[i]).value_or(0));
    }
    well.push_back(fmt::format("NCCL {} in {}", version, folder));
    for (const auto& loss : losses) {
      if (numbers < loss.first || numbers > loss.last) { continue; }
      lossy.push_back(fmt::format("NCCL {} in {}: {}", version, folder, loss.words));
    }
  }
  return none_of(
      lossy, join(well, ", "),
      "use another version where that is your case, the same one in all arms (guests have the host's)");
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
                  "a GPU has a BAR of 64 GiB or more", has_huge_bars, huge_bars_are_mapped_whole,
                  "tianocore/edk2#10856, kata-containers#13084"},
      DeviceCheck{"VER-4", Severity::warns, "VMs by iommufd need no PCIe peer-to-peer",
                  "a scenario has devices.vfio: iommufd", wants_iommufd, iommufd_maps_what_is_needed,
                  "QEMU's docs/devel/vfio-iommufd, P2P DMA"},
      DeviceCheck{"MEM-5", Severity::warns, "VMs by iommufd have their memory mapped at once",
                  "a scenario has devices.vfio: iommufd", wants_iommufd, iommufd_maps_at_once,
                  "kata-containers#13084"},
      DeviceCheck{"VER-5", Severity::warns, "NCCL is of no version that is known to lose speed",
                  "libnccl is in a folder of libraries", has_nccl, nccl_loses_nothing,
                  "NVIDIA/nccl#1222, #1876"},
  };
  return checks;
}

}  // namespace virtrain::vmctl
