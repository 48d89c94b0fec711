#include "vmctl/devices/device_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/text.h"
#include "common/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr std::uint64_t kHugeBarBytes = 64ULL << 30;
/// Linux maps huge BARs with huge page table entries from here on.
constexpr std::pair kKernelForHugeBars{6, 12};

bool has_gpus(const DeviceHost& host) {
  return !host.gpus().empty();
}

bool always(const DeviceHost& /*host*/) {
  return true;
}

std::string value(const DeviceHost& host, const char* file) {
  return read_value(host.root / file).value_or("");
}

/// The answer for offenders: well where there are none.
CheckAnswer none_of(const Words& offenders, const std::string& well, const std::string& fix) {
  if (offenders.empty()) return {well};
  return {join(offenders, "; "), fix};
}

/// Addresses of GPUs that the predicate holds for, with its words.
template <typename Describe>
Words gpus_where(const DeviceHost& host, Describe&& describe) {
  Words found;
  for (const auto* gpu : host.gpus())
    if (const auto words = describe(*gpu); !words.empty())
      found.push_back(fmt::format("{} {}", gpu->function.address, words));
  return found;
}

bool is_vfio(const std::string& driver) {
  return driver.empty() || driver == "vfio-pci" || driver == "pci-stub";
}

/// "0000:17:00" of "0000:17:00.1": functions of one card.
std::string slot_of(const std::string& address) {
  return address.substr(0, address.find('.'));
}

fs::path sysfs(const DeviceHost& host, const std::string& address) {
  return host.root / "sys/bus/pci/devices" / address;
}

bool is_bridge(const DeviceHost& host, const std::string& address) {
  return read_value(sysfs(host, address) / "class").value_or("").starts_with("0x0604");
}

std::string driver_of(const DeviceHost& host, const std::string& address) {
  std::error_code failure;
  const auto link = fs::read_symlink(sysfs(host, address) / "driver", failure);
  return failure ? "" : link.filename().string();
}

CheckAnswer iommu_is_on(const DeviceHost& host) {
  std::error_code ignored;
  const auto groups = fs::directory_iterator(host.root / "sys/kernel/iommu_groups", ignored);
  const auto count = std::distance(begin(groups), end(groups));
  if (count > 0) return {fmt::format("{} IOMMU groups", count)};
  return {
      "no IOMMU groups: no device of this host can be passed to a VM",
      "switch VT-d or AMD-Vi on in the firmware; on Intel add intel_iommu=on to the kernel's command line"};
}

CheckAnswer groups_are_their_own(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [&](const HostDevice& gpu) -> std::string {
    Words strangers;
    for (const auto& member : gpu.function.iommu_group_members)
      if (slot_of(member) != slot_of(gpu.function.address) && !is_bridge(host, member))
        strangers.push_back(member);
    return strangers.empty() ? "" : "shares its IOMMU group with " + join(strangers, " ");
  });
  return none_of(
      offenders, "each GPU's group holds its own functions only",
      "move the card to another slot, or lease the whole group; not by the ACS override patch, which only "
      "hides the sharing");
}

CheckAnswer interrupts_are_remapped(const DeviceHost& host) {
  if (value(host, "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts") != "Y")
    return {"not allowed"};
  return {"a tenant can raise any interrupt of the host (allow_unsafe_interrupts=Y)",
          "switch it off and interrupt remapping on in the firmware"};
}

bool vfio_is_loaded(const DeviceHost& host) {
  std::error_code ignored;
  return fs::exists(host.root / "sys/module/vfio_iommu_type1", ignored);
}

CheckAnswer iommu_passes_host_dma(const DeviceHost& host) {
  if (value(host, "proc/cmdline").find("iommu=pt") != std::string::npos) return {"iommu=pt"};
  return {"no iommu=pt on the kernel's command line: the host's own DMA is translated too",
          "add iommu=pt, or bare metal is measured slower than it is"};
}

CheckAnswer groups_let_go_together(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [&](const HostDevice& gpu) -> std::string {
    if (gpu.function.driver != "vfio-pci") return "";
    Words held;
    for (const auto& member : gpu.function.iommu_group_members)
      if (const auto driver = driver_of(host, member); !is_vfio(driver) && !is_bridge(host, member))
        held.push_back(fmt::format("{} on {}", member, driver));
    return held.empty() ? "" : "is on vfio-pci, but of its group " + join(held, ", ");
  });
  return none_of(offenders, "no group is half lent",
                 "bind the card's audio and USB functions to vfio-pci as well (QEMU: group is not viable)");
}

CheckAnswer no_override_is_left(const DeviceHost& host) {
  Words offenders;
  for (const auto& device : host.inventory.devices) {
    const auto& pci = device.function;
    const bool leased = std::find(host.leased.begin(), host.leased.end(), pci.address) != host.leased.end();
    if (!pci.driver_override.empty() && !leased)
      offenders.push_back(fmt::format("{} has driver_override {}", pci.address, pci.driver_override));
  }
  return none_of(offenders, "no driver_override is set",
                 "nobody holds it: echo > /sys/bus/pci/devices/ADDRESS/driver_override, then reprobe");
}

CheckAnswer no_desktop_driver(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [](const HostDevice& gpu) -> std::string {
    return gpu.function.driver == "nouveau" ? "is on nouveau" : "";
  });
  return none_of(offenders, "no GPU is on nouveau", "blacklist nouveau and rebuild the initramfs");
}

CheckAnswer nobody_uses_gpus(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [](const HostDevice& gpu) -> std::string {
    Words users;
    for (const auto& user : gpu.users) users.push_back(fmt::format("{} (pid {})", user.process, user.pid));
    return users.empty() ? "" : "is open in " + join(users, ", ");
  });
  return none_of(offenders, "no process has a GPU open",
                 "stop it (systemctl stop nvidia-persistenced, nvidia-dcgm); unbinding waits for it forever");
}

CheckAnswer gpus_can_be_reset(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [](const HostDevice& gpu) -> std::string {
    const auto& methods = gpu.function.reset_methods;
    const bool can = std::any_of(methods.begin(), methods.end(),
                                 [](const auto& method) { return method == "flr" || method == "bus"; });
    return can ? "" : methods.empty() ? "has no reset method" : "resets by " + join(methods, " ") + " only";
  });
  return none_of(offenders, "every GPU resets by flr or bus",
                 "not to be lent: a tenant's data could stay in it for the next one");
}

CheckAnswer gpus_are_awake(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [](const HostDevice& gpu) -> std::string {
    if (gpu.function.power_state == "D3cold") return "is in D3cold";
    return gpu.function.vendor == "0xffff" ? "answers with ones only" : "";
  });
  return none_of(offenders, "every GPU answers",
                 "remove and rescan it, else switch the host off and on; then write 0 to its d3cold_allowed");
}

CheckAnswer links_are_wide(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [](const HostDevice& gpu) -> std::string {
    const auto& [now, possible] = std::pair(gpu.function.link, gpu.function.link_possible);
    if (now.width == possible.width) return "";
    return fmt::format("runs {} lanes of {}", now.width, possible.width);
  });
  // The speed says nothing here: an idle GPU slows its link down.
  return none_of(offenders, "every GPU has all its lanes", "reseat the card; look at bifurcation and risers");
}

CheckAnswer gpus_have_a_numa_node(const DeviceHost& host) {
  const auto offenders = gpus_where(host, [](const HostDevice& gpu) -> std::string {
    return gpu.function.numa_node < 0 ? "is on no NUMA node" : "";
  });
  return none_of(offenders, "every GPU is on a NUMA node",
                 "update the firmware; cores and memory cannot be placed near it");
}

bool has_many_nodes(const DeviceHost& host) {
  return has_gpus(host) && host.inventory.numa_nodes.size() > 1;
}

/// "6.1.0-35-amd64" as {6, 1}.
std::pair<int, int> kernel_version(const std::string& release) {
  char* rest = nullptr;
  const long major = std::strtol(release.c_str(), &rest, 10);
  const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  return {static_cast<int>(major), static_cast<int>(minor)};
}

std::uint64_t largest_bar(const HostDevice& gpu) {
  std::uint64_t most = 0;
  for (const auto& bar : gpu.function.bars) most = std::max(most, bar.bytes);
  return most;
}

bool has_huge_bars(const DeviceHost& host) {
  const auto gpus = host.gpus();
  return std::any_of(gpus.begin(), gpus.end(),
                     [](const auto* gpu) { return largest_bar(*gpu) >= kHugeBarBytes; });
}

CheckAnswer kernel_maps_huge_bars(const DeviceHost& host) {
  const auto& release = host.inventory.kernel;
  if (kernel_version(release) >= kKernelForHugeBars) return {"Linux " + release};
  return {"Linux " + release + " maps BARs of 64 GiB and more page by page",
          "expect minutes until a guest has probed its GPUs; Linux 6.12 with QEMU 9.2 does it at once"};
}

CheckAnswer pages_are_not_shared(const DeviceHost& host) {
  if (value(host, "sys/kernel/mm/ksm/run") != "1") return {"KSM is off"};
  return {"KSM merges pages of tenants",
          "echo 2 > /sys/kernel/mm/ksm/run; a tenant can measure what it merges"};
}

CheckAnswer clocks_are_fixed(const DeviceHost& host) {
  const auto governor = value(host, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor == "performance") return {"governor performance"};
  return {"governor " + governor, "cpupower frequency-set -g performance"};
}

bool has_governor(const DeviceHost& host) {
  return !value(host, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").empty();
}

constexpr const char* kGpus = "the host has GPUs";

constexpr std::array checks = {
    DeviceCheck{"IOM-1", Severity::blocks, "always", always, iommu_is_on},
    DeviceCheck{"IOM-2", Severity::blocks, kGpus, has_gpus, groups_are_their_own},
    DeviceCheck{"IOM-3", Severity::invalidates, "vfio is loaded", vfio_is_loaded, interrupts_are_remapped},
    DeviceCheck{"IOM-4", Severity::warns, kGpus, has_gpus, iommu_passes_host_dma},
    DeviceCheck{"DRV-1", Severity::blocks, kGpus, has_gpus, groups_let_go_together},
    DeviceCheck{"DRV-2", Severity::warns, kGpus, has_gpus, no_override_is_left},
    DeviceCheck{"DRV-4", Severity::blocks, kGpus, has_gpus, no_desktop_driver},
    DeviceCheck{"USE-1", Severity::blocks, kGpus, has_gpus, nobody_uses_gpus},
    DeviceCheck{"RST-1", Severity::blocks, kGpus, has_gpus, gpus_can_be_reset},
    DeviceCheck{"RST-2", Severity::blocks, kGpus, has_gpus, gpus_are_awake},
    DeviceCheck{"LNK-1", Severity::invalidates, kGpus, has_gpus, links_are_wide},
    DeviceCheck{"NUM-0", Severity::warns, "the host has GPUs and several NUMA nodes", has_many_nodes,
                gpus_have_a_numa_node},
    DeviceCheck{"VER-3", Severity::warns, "a GPU has a BAR of 64 GiB or more", has_huge_bars,
                kernel_maps_huge_bars},
    DeviceCheck{"MEM-4", Severity::warns, "always", always, pages_are_not_shared},
    DeviceCheck{"CPU-1", Severity::warns, "the kernel sets the clocks", has_governor, clocks_are_fixed},
};

}  // namespace

std::vector<const HostDevice*> DeviceHost::gpus() const {
  std::vector<const HostDevice*> found;
  for (const auto& device : inventory.devices)
    if (device.device_class == DeviceClass::gpu) found.push_back(&device);
  return found;
}

std::span<const DeviceCheck> device_checks() {
  return checks;
}

Finding examine(const DeviceCheck& check, const DeviceHost& host) {
  if (!check.applies(host))
    return {check.id, check.severity, CheckStatus::skipped, std::string("applies when ") + check.applies_when,
            "",       false};
  auto answer = check.look(host);
  const auto status = answer.fix.empty() ? CheckStatus::ok : CheckStatus::failed;
  return {check.id, check.severity, status, std::move(answer.found), std::move(answer.fix), true};
}

}  // namespace virtrain::vmctl
