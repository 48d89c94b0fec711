#include <array>

#include "vmctl/devices/pci/link_errors.h"
#include "vmctl/devices/pci/pci_config.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/doctor/checks/words.h"

namespace virtrain::vmctl {
namespace {

CheckAnswer links_are_wide(const DeviceHost& host) {
  const auto offenders = each(host.gpus(), [](const HostDevice& gpu) -> std::string {
    const auto& [now, possible] = std::pair(gpu.function.link, gpu.function.link_possible);
    if (now.width == possible.width) { return ""; }
    return fmt::format("runs {} of {} lanes", now.width, possible.width);
  });
  // The speed says nothing here: an idle GPU slows its link down.
  return none_of(offenders, "every GPU has all its lanes", "reseat the card; look at bifurcation and risers");
}

bool counts_errors(const DeviceHost& host) {
  const auto devices = host.devices();
  return std::ranges::any_of(
      devices, [](const auto* device) { return read_link_errors(device->function).has_value(); });
}

CheckAnswer no_link_errors(const DeviceHost& host) {
  const auto offenders = each(host.devices(), [](const HostDevice& device) -> std::string {
    const auto errors = read_link_errors(device.function).value_or(LinkErrors{});
    const auto uncorrected = errors.nonfatal + errors.fatal;
    return uncorrected == 0 ? ""
                            : fmt::format("has had {} uncorrected PCIe errors since the start", uncorrected);
  });
  return none_of(offenders, "no uncorrected PCIe error since the start",
                 "cable, riser or slot: reseat the card (a trial in which the count grows is invalid)");
}

CheckAnswer gpus_have_a_numa_node(const DeviceHost& host) {
  const auto offenders = each(host.gpus(), [](const HostDevice& gpu) -> std::string {
    return gpu.function.numa_node < 0 ? "is on no NUMA node" : "";
  });
  return none_of(offenders, "every GPU is on a NUMA node",
                 "update the firmware; cores and memory cannot be placed near it");
}

bool has_many_nodes(const DeviceHost& host) {
  return has_gpus(host) && host.inventory.numa_nodes.size() > 1;
}

/// Adapters with a port that is up: without a plan all of them, else those it gives to VMs.
std::vector<const HostDevice*> active_adapters(const DeviceHost& host) {
  std::vector<const HostDevice*> found;
  const auto wanted = host.devices();
  for (const auto& device : host.inventory.devices) {
    const bool is_wanted = !host.demand || std::ranges::find(wanted, &device) != wanted.end();
    const bool is_active =
        std::ranges::any_of(device.ports, [](const auto& port) { return port.state == "ACTIVE"; });
    if (is_wanted && is_active) { found.push_back(&device); }
  }
  return found;
}

bool has_gpus_and_rdma(const DeviceHost& host) {
  return has_gpus(host) && !active_adapters(host).empty();
}

/// GPU memory is registered with the adapter by nvidia-peermem, or by dma-buf, which the open kernel module
/// offers.
CheckAnswer gpus_reach_the_network(const DeviceHost& host) {
  Words offenders, fixes;
  const bool open_module = value(host, "proc/driver/nvidia/version").find("Open Kernel") != std::string::npos;
  if (!exists(host, "sys/module/nvidia_peermem") && !open_module) {
    offenders.emplace_back("neither nvidia-peermem nor the open kernel module (dma-buf) is loaded");
    fixes.emplace_back("modprobe nvidia-peermem");
  }
  const auto without_ats = each(active_adapters(host), [](const HostDevice& adapter) -> std::string {
    const auto config = read_pci_config(adapter.function);
    if (config.size() <= 256) {
      return "";  // not ours to read
    }
    const auto enabled = ats_enabled(config);
    return !enabled ? "has no ATS" : *enabled ? "" : "has ATS, not enabled";
  });
  if (!without_ats.empty()) {
    offenders.insert(offenders.end(), without_ats.begin(), without_ats.end());
    fixes.emplace_back(
        "mlxconfig -d ADDRESS set ATS_ENABLED=true, then switch the host off and on (in a VM, peer-to-peer "
        "DMA needs ATS)");
  }
  return none_of(offenders, "GPU memory can be registered with the adapters", join(fixes, "; "));
}

}  // namespace

std::span<const DeviceCheck> link_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"LNK-1", Severity::invalidates, "each GPU's PCIe link has all its lanes", when_gpus,
                  has_gpus, links_are_wide},
      DeviceCheck{"AER-1", Severity::invalidates, "no uncorrected PCIe error has happened since the start",
                  "the kernel counts the devices' PCIe errors", counts_errors, no_link_errors},
      DeviceCheck{"NUM-0", Severity::warns, "the firmware tells the NUMA node of each GPU",
                  "there are GPUs and several NUMA nodes", has_many_nodes, gpus_have_a_numa_node},
      DeviceCheck{"RDM-1", Severity::invalidates, "RDMA adapters can read and write GPU memory directly",
                  "there are GPUs and an RDMA adapter whose port is up", has_gpus_and_rdma,
                  gpus_reach_the_network},
  };
  return checks;
}

}  // namespace virtrain::vmctl
