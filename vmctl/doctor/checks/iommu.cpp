#include <array>

#include "common/contains.h"
#include "vmctl/devices/pci.h"
#include "vmctl/doctor/checks/tables.h"

namespace virtrain::vmctl {
namespace {

CheckAnswer iommu_is_on(const DeviceHost& host) {
  const auto count = names_in(host, "sys/kernel/iommu_groups").size();
  if (count > 0) { return {fmt::format("{} IOMMU groups", count)}; }
  return {
      "no IOMMU groups: no device of this host can be passed to a VM",
      "switch VT-d or AMD-Vi on in the firmware; on Intel add intel_iommu=on to the kernel's command line"};
}

/// Whether a VM of the plan gets both.
bool go_together(const DeviceHost& host, const std::string& one, const std::string& other) {
  if (!host.demand) { return false; }
  const auto gets = [](const VmDemand& vm, const std::string& address) {
    return std::ranges::any_of(vm.devices,
                               [&](const auto& device) { return device.grant.address == address; });
  };
  const auto& vms = host.demand->vms;
  return std::ranges::any_of(vms, [&](const auto& vm) { return gets(vm, one) && gets(vm, other); });
}

CheckAnswer groups_are_their_own(const DeviceHost& host) {
  bool all_are_gpus = true;  // then one VM may get all of them
  const auto offenders = each(host.devices(), [&](const HostDevice& device) -> std::string {
    const auto& address = device.function.address;
    Words strangers;
    for (const auto& member : device.function.iommu_group_members) {
      if (slot_of(member) != slot_of(address) && !is_bridge(host, member) &&
          !go_together(host, address, member)) {
        strangers.push_back(member);
        const auto* other = host.find(member);
        all_are_gpus = all_are_gpus && other != nullptr && other->device_class == DeviceClass::gpu;
      }
    }
    return strangers.empty() ? "" : "shares its IOMMU group with " + join(strangers, " ");
  });
  auto answer = none_of(
      offenders, "each device's group holds its own functions only",
      "move the card to another slot, or lease the whole group (devices.select allows all of it, and one VM "
      "gets it); not by the ACS override patch, which only hides the sharing");
  if (!host.demand && all_are_gpus) { answer.severity = Severity::warns; }
  return answer;
}

CheckAnswer groups_are_true(const DeviceHost& host) {
  if (value(host, "proc/cmdline").find("pcie_acs_override=") == std::string::npos) {
    return {"no pcie_acs_override on the kernel's command line"};
  }
  return {
      "pcie_acs_override is on the kernel's command line: groups show less sharing than there is, so a "
      "device may reach another tenant's memory past the IOMMU",
      "take it off, and assign what then shares a group to one VM",
      host.demand && host.demand->several_tenants ? Severity::invalidates : Severity::warns};
}

CheckAnswer interrupts_are_remapped(const DeviceHost& host) {
  if (!allows_unsafe_interrupts(host.root)) { return {"not allowed"}; }
  return {"a tenant can raise any interrupt of the host (allow_unsafe_interrupts=Y)",
          "switch it off and interrupt remapping on in the firmware"};
}

bool vfio_is_loaded(const DeviceHost& host) {
  return exists(host, "sys/module/vfio_iommu_type1");
}

CheckAnswer iommu_passes_host_dma(const DeviceHost& host) {
  if (value(host, "proc/cmdline").find("iommu=pt") != std::string::npos) { return {"iommu=pt"}; }
  return {"no iommu=pt on the kernel's command line: the host's own DMA is translated too",
          "add iommu=pt, or bare metal is measured slower than it is"};
}

bool acs_is_readable(const DeviceHost& host) {
  return !acs_above(host.root, host.devices()).empty();
}

CheckAnswer acs_is_on(const DeviceHost& host) {
  const auto bridges = acs_above(host.root, host.devices());
  auto answer = none_of(
      acs_gaps(bridges), fmt::format("on in all bridges that have it ({})", bridges.size()),
      "somebody cleared ACS since the start, and IOMMU groups do not show it: devices below the bridge reach "
      "each other past the IOMMU; switch it on again (setpci) or reboot");
  const bool isolates = host.demand && host.demand->several_tenants;
  answer.severity = isolates ? Severity::invalidates : Severity::warns;
  return answer;
}

/// Those of one VM of the plan, or all: GPUs of which some are not joined by NVLink.
bool lack_nvlink(const std::vector<const HostDevice*>& gpus) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t k = i + 1; k < gpus.size(); ++k) {
      if (!contains(gpus[i]->nvlink_peers, gpus[k]->function.address)) { return true; }
    }
  }
  return false;
}

CheckAnswer peers_meet_below_the_root(const DeviceHost& host) {
  const auto gpus = host.gpus();
  const bool is_on = std::ranges::any_of(gpus, [](const auto* gpu) { return gpu->has_acs_above; });
  if (!is_on || !lack_nvlink(gpus)) {
    return {"GPUs reach each other by NVLink, or below a bridge without ACS"};
  }
  return {
      "ACS sends peer-to-peer traffic of GPUs without NVLink through the root complex, where on bare metal "
      "it may halve or hang; a VM has none of it unless devices.clique says so",
      "leave ACS on where tenants share the host (no pci=noacs); set NCCL_P2P_DISABLE: \"1\" in "
      "workload.env for both arms, or devices.clique for VMs, and compare such arms"};
}

/// Bridges just below the PCIe switch that a GPU and an RDMA adapter share, one of each: what goes from one
/// to the other turns round there. None where they meet at the root complex, or where ACS is not ours to
/// read.
std::map<std::string, AcsControl> where_pairs_turn(const DeviceHost& host) {
  std::map<std::string, AcsControl> found;
  const auto gpus = host.gpus();
  for (const auto& adapter : host.active_adapters()) {
    for (const auto* gpu : gpus) {
      const auto& one = gpu->function.bridges;
      const auto& other = adapter->function.bridges;
      const auto [own, its] = std::ranges::mismatch(one, other);
      if (own == one.begin() || own == one.end() || its == other.end()) { continue; }
      for (const auto* device : {gpu, adapter}) {
        for (const auto& [bridge, acs] : acs_above(host.root, {device})) {
          if ((bridge == *own || bridge == *its) && acs.request_redirect) { found.emplace(bridge, acs); }
        }
      }
    }
  }
  return found;
}

bool pairs_turn_at_a_switch(const DeviceHost& host) {
  return !where_pairs_turn(host).empty();
}

CheckAnswer translated_requests_go_straight(const DeviceHost& host) {
  Words without;
  bool all_can = true;
  for (const auto& [bridge, acs] : where_pairs_turn(host)) {
    if (acs.direct_translated) { continue; }
    without.push_back(bridge + (acs.can_direct_translated ? "" : " (cannot)"));
    all_can = all_can && acs.can_direct_translated;
  }
  if (without.empty()) { return {"on in the bridges between GPUs and adapters of one switch"}; }
  return {
      "ACS redirects requests, and DirectTrans is off, between GPUs and RDMA adapters of one switch: " +
          join(without, " ") + "; in a VM GPUDirect RDMA goes by the root complex, at about half the speed",
      all_can ? "with ATS on in the adapter (RDM-1): setpci -s BRIDGE ECAP_ACS+6.w=5d (redirects stay on), "
                "after every start of the host; only the bridges named here"
              : "compare arms without GPUDirect RDMA (NCCL_NET_GDR_LEVEL: LOC in workload.env), or use a "
                "machine whose switches have it"};
}

bool has_several_gpus(const DeviceHost& host) {
  return acs_is_readable(host) && host.gpus().size() > 1;
}

}  // namespace

std::span<const DeviceCheck> iommu_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"IOM-1", Severity::blocks, "the IOMMU is on, so that devices can be passed to VMs",
                  when_always, always, iommu_is_on},
      DeviceCheck{"IOM-2", Severity::blocks,
                  "each device has an IOMMU group of its own, or shares it with devices of the same VM only",
                  when_devices, has_devices, groups_are_their_own},
      DeviceCheck{"IOM-3", Severity::invalidates,
                  "interrupts of passed-through devices are remapped, so that no tenant can raise the host's",
                  "vfio is loaded", vfio_is_loaded, interrupts_are_remapped},
      DeviceCheck{"IOM-5", Severity::warns, "IOMMU groups are the hardware's: no pcie_acs_override",
                  when_devices, has_devices, groups_are_true, "the patch's own notes; never part of Linux"},
      DeviceCheck{"IOM-4", Severity::warns,
                  "the host's own DMA is not translated (iommu=pt), as on bare metal without an IOMMU",
                  when_devices, has_devices, iommu_passes_host_dma},
      DeviceCheck{"ACS-1", Severity::invalidates,
                  "ACS is on in all bridges above the devices, so that peer-to-peer traffic passes the IOMMU",
                  "bridges above the devices have ACS, and we may read their configuration space (root)",
                  acs_is_readable, acs_is_on},
      DeviceCheck{"ACS-2", Severity::warns,
                  "GPUs without NVLink reach each other without the way through the root complex",
                  "bridges above several GPUs have ACS, and we may read it (root)", has_several_gpus,
                  peers_meet_below_the_root, "NVIDIA/nccl#2079, #606, #667"},
      DeviceCheck{
          "ACS-3", Severity::warns,
          "translated requests between GPUs and RDMA adapters go straight (ACS DirectTrans)",
          "a GPU and an RDMA adapter whose port is up share a PCIe switch with ACS, and we may read it "
          "(root)",
          pairs_turn_at_a_switch, translated_requests_go_straight, "NVIDIA/nccl#949, #2171"},
  };
  return checks;
}

}  // namespace virtrain::vmctl
