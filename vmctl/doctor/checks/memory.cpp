#include <algorithm>
#include <array>

#include "common/text/units.h"
#include "vmctl/doctor/checks/tables.h"

namespace virtrain::vmctl {
namespace {

constexpr std::uint64_t gib = 1ULL << 30;

std::string text_of(const DeviceHost& host, const std::string& file) {
  return read_file(host.root / file).value_or("");
}

/// The hard one, of "Max locked memory   65536   8388608   bytes"; "little" where it is not known.
std::string limit_of_locked_memory(const DeviceHost& host, const std::string& pid) {
  constexpr std::string_view name = "Max locked memory";
  for (const auto& line : split(text_of(host, "proc/" + pid + "/limits"), '\n')) {
    const auto words = words_of(std::string_view(line).substr(std::min(name.size(), line.size())));
    if (line.starts_with(name) && words.size() > 1) { return std::string(words[1]); }
  }
  return "little";
}

bool wants_pages(const DeviceHost& host) {
  return host.demand ? host.demand->hugepages : has_gpus(host);
}

/// Sums the memory of all VMs, or of those whose memory comes from this node.
std::uint64_t memory_of_vms(const DeviceDemand& demand, std::optional<int> node = std::nullopt) {
  std::uint64_t sum = 0;
  for (const auto& vm : demand.vms) {
    if (!node || vm.numa_node == node) { sum += vm.memory_bytes; }
  }
  return sum;
}

CheckAnswer pages_are_reserved(const DeviceHost& host) {
  constexpr const char* fix =
      "reserve them at the start: default_hugepagesz=1G hugepagesz=1G hugepages=N on the kernel's command "
      "line, as many on each node as its VMs need";
  Words free, lacking;
  const std::uint64_t surplus = host.demand ? host.inventory.surplus_hugepage_bytes : 0;
  std::uint64_t free_bytes = surplus;
  for (const auto& node : host.inventory.numa_nodes) {
    const auto bytes =
        host.demand ? free_hugepage_bytes(host.inventory, node) : node.free_hugepages_1gib * gib;
    free.push_back(fmt::format("{} on node {}", format_size(bytes), node.id));
    if (!host.demand) { continue; }
    free_bytes += bytes;
    const auto needed = memory_of_vms(*host.demand, node.id);
    if (needed > bytes + surplus) {
      lacking.push_back(fmt::format("node {} has {} of hugepages free, its VMs need {}", node.id,
                                    format_size(bytes), format_size(needed)));
    }
  }
  // Those of no node have theirs from any.
  if (host.demand && lacking.empty() && memory_of_vms(*host.demand) > free_bytes) {
    lacking.push_back(fmt::format("{} of hugepages are free, the VMs need {}", format_size(free_bytes),
                                  format_size(memory_of_vms(*host.demand))));
  }
  if (host.demand) { return none_of(lacking, "hugepages free: " + join(free, ", "), fix); }
  const auto& nodes = host.inventory.numa_nodes;
  const bool any = std::ranges::any_of(nodes, [](const auto& node) { return node.free_hugepages_1gib > 0; });
  if (any && host.inventory.hugepage_bytes != gib) {
    return {fmt::format("1 GiB pages free: {}; VMs get the default size, which is {}", join(free, ", "),
                        format_size(host.inventory.hugepage_bytes)),
            "add default_hugepagesz=1G to the kernel's command line", Severity::warns};
  }
  if (any) { return {"1 GiB pages free: " + join(free, ", ")}; }
  return {"no 1 GiB page is free: a VM with a GPU has all its memory pinned, page by page", fix,
          Severity::warns};
}

/// Limit of the cgroup that libvirt puts its VMs into. virtrain leaves their own limit (hard_limit) unset.
constexpr const char* machine_limit = "sys/fs/cgroup/machine.slice/memory.max";

bool has_machine_slice(const DeviceHost& host) {
  return has_devices(host) && exists(host, machine_limit);
}

CheckAnswer memory_is_not_capped(const DeviceHost& host) {
  const auto text = value(host, machine_limit);
  const auto limit = parse_integer(text);
  if (!limit) { return {"VMs have no memory limit"}; }
  std::uint64_t needed = 0;
  if (host.demand) {
    for (const auto& vm : host.demand->vms) { needed += vm.memory_bytes + gib; }
  }
  const auto bytes = static_cast<std::uint64_t>(*limit);
  const auto found = fmt::format("machine.slice is limited to {}", format_size(bytes));
  if (host.demand && bytes >= needed) { return {found}; }
  return {host.demand ? found + fmt::format(", the VMs need {} (memory and 1 GiB each)", format_size(needed))
                      : found,
          "systemctl set-property machine.slice MemoryMax=infinity (QEMU: VFIO_MAP_DMA failed: Cannot "
          "allocate memory)",
          host.demand ? Severity::blocks : Severity::warns};
}

Words libvirt_daemons(const DeviceHost& host) {
  return processes_named(host, {"libvirtd", "virtqemud"});
}

bool runs_libvirt(const DeviceHost& host) {
  return has_devices(host) && !libvirt_daemons(host).empty();
}

/// The daemon raises the limit of locked memory of each QEMU with devices, to all of its memory.
CheckAnswer libvirt_may_lock_memory(const DeviceHost& host) {
  constexpr unsigned sys_resource = 24;  // CAP_SYS_RESOURCE, capabilities(7)
  Words offenders;
  for (const auto& pid : libvirt_daemons(host)) {
    const auto status = text_of(host, "proc/" + pid + "/status");
    const auto set = std::strtoull(line_value(status, "CapEff").c_str(), nullptr, 16);
    const auto limit = limit_of_locked_memory(host, pid);
    if ((set >> sys_resource & 1U) == 0 && limit != "unlimited") {
      offenders.push_back(fmt::format("{} (pid {}) lacks CAP_SYS_RESOURCE and may lock {} only",
                                      value(host, "proc/" + pid + "/comm"), pid, limit));
    }
  }
  return none_of(offenders, "libvirt may raise QEMU's limit of locked memory",
                 "take CapabilityBoundingSet out of the unit's drop-ins, or LimitMEMLOCK=infinity there");
}

/// virtrain's own VMs have no balloon.
CheckAnswer memory_is_their_own(const DeviceHost& host) {
  Words wrong, fixes;
  if (value(host, "sys/kernel/mm/ksm/run") == "1") {
    wrong.emplace_back("KSM merges pages of tenants");
    fixes.emplace_back("echo 2 > /sys/kernel/mm/ksm/run (a tenant can measure what it merges)");
  }
  if (value(host, "proc/sys/vm/overcommit_memory") == "1") {
    wrong.emplace_back("the kernel promises memory that is not there (overcommit)");
    fixes.emplace_back("sysctl vm.overcommit_memory=0");
  }
  if (wrong.empty()) { return {"no KSM, no unbounded overcommit"}; }
  return {join(wrong, "; "), join(fixes, "; ")};
}

bool knows_address_bits(const DeviceHost& host) {
  return has_rebound(host) && host.inventory.address_bits > 0;
}

/// The VM of the plan with the least room left, or without a plan one with every GPU: what its regions need,
/// and its address bits.
std::pair<std::uint64_t, int> tightest_vm(const DeviceHost& host) {
  const int own_bits = host.inventory.address_bits;
  std::pair<std::uint64_t, int> tightest{0, own_bits};
  if (!host.demand) {
    std::vector<PlacedDevice> gpus;
    for (const auto* gpu : host.rebound()) { gpus.push_back(placed({}, *gpu)); }
    return {region_bytes(gpus), own_bits};
  }
  const auto left = [](const auto& vm) {
    return static_cast<double>(region_room(vm.second)) - static_cast<double>(vm.first);
  };
  for (const auto& vm : host.demand->vms) {
    const std::pair one(region_bytes(vm.devices), vm.address_bits > 0 ? vm.address_bits : own_bits);
    if (left(one) < left(tightest)) { tightest = one; }
  }
  return tightest;
}

CheckAnswer bars_fit(const DeviceHost& host) {
  const auto [needed, bits] = tightest_vm(host);
  const auto found =
      fmt::format("{} for BARs with {} address bits, {} needed {}", format_size(region_room(bits)), bits,
                  format_size(needed), host.demand ? "by the largest VM" : "by a VM of all GPUs");
  if (needed <= region_room(bits)) { return {found}; }
  return {found,
          "guest.cpu_model: host (maxphysaddr mode='passthrough') on a host with more address bits, fewer "
          "GPUs a VM, or a larger opt/ovmf/X-PciMmio64Mb (guest: BAR1 is 0M @ 0x0)",
          host.demand ? Severity::blocks : Severity::warns};
}

bool wants_firmware(const DeviceHost& host) {
  return host.demand ? host.demand->firmware : has_gpus(host);
}

/// Debian's and Ubuntu's package ovmf.
CheckAnswer firmware_is_there(const DeviceHost& host) {
  Words plain, secure;
  for (const auto& file : names_in(host, "usr/share/OVMF")) {
    if (!file.starts_with("OVMF_CODE")) { continue; }
    const bool is_secure =
        file.find("secboot") != std::string::npos || file.find(".ms.") != std::string::npos;
    (is_secure ? secure : plain).push_back(file);
  }
  const auto severity = host.demand ? Severity::blocks : Severity::warns;
  if (!plain.empty()) { return {join(plain, " ")}; }
  if (secure.empty()) {
    return {"no UEFI firmware for VMs (cloud images of your own may need it; the mirror image does not)",
            "apt-get install ovmf", severity};
  }
  return {"only firmware with Secure Boot, which needs SMM" +
              std::string(host.inventory.is_virtual_machine ? ", and KVM in a VM has none" : ""),
          "install the plain loader (OVMF_CODE_4M.fd), or switch SMM on", severity};
}

}  // namespace

std::span<const DeviceCheck> memory_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"MEM-1", Severity::blocks, "hugepages for the VMs are free",
                  "there are GPUs, or a scenario wants hugepages", wants_pages, pages_are_reserved},
      DeviceCheck{"MEM-2", Severity::blocks, "no cgroup limit is below the memory that VMs with devices pin",
                  "there are devices, and a cgroup above libvirt's VMs", has_machine_slice,
                  memory_is_not_capped},
      DeviceCheck{"MEM-3", Severity::blocks, "libvirt may raise QEMU's limit of locked memory",
                  "there are devices, and libvirt's daemon runs", runs_libvirt, libvirt_may_lock_memory},
      DeviceCheck{"MEM-4", Severity::warns, "tenants' memory is their own: no KSM, no unbounded overcommit",
                  when_always, always, memory_is_their_own},
      DeviceCheck{"BAR-1", Severity::blocks,
                  "a guest's address space has room for the memory regions (BARs) of its GPUs",
                  "a device is to leave its driver for a VM, and the CPU tells its address bits",
                  knows_address_bits, bars_fit},
      DeviceCheck{"FW-1", Severity::blocks, "a UEFI firmware for VMs is installed",
                  "there are GPUs, or a scenario's VMs boot by UEFI", wants_firmware, firmware_is_there},
  };
  return checks;
}

}  // namespace virtrain::vmctl
