#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "common/contains.h"
#include "common/text/units.h"
#include "vmctl/devices/pci.h"
#include "vmctl/doctor/checks/tables.h"

namespace virtrain::vmctl {
namespace {

CheckAnswer links_are_wide(const DeviceHost& host) {
  std::optional<double> missing;  // of the worst
  const auto offenders = each(host.gpus(), [&](const HostDevice& gpu) -> std::string {
    const auto& [now, possible] = std::pair(gpu.function.link, gpu.function.link_possible);
    if (now.width == possible.width) { return ""; }
    if (now.width < possible.width) {
      missing = std::max(missing.value_or(0), 1 - static_cast<double>(now.width) / possible.width);
    }
    return fmt::format("runs {} of {} lanes", now.width, possible.width);
  });
  // LNK-2 judges speeds: an idle GPU slows its link down.
  auto answer =
      none_of(offenders, "every GPU has all its lanes", "reseat the card; look at bifurcation and risers");
  answer.loss = missing;
  return answer;
}

/// "16.0 GT/s PCIe" as 16; nothing for "Unknown".
std::optional<double> speed_of(const std::string& words) {
  return parse_number(words.substr(0, words.find(' ')));
}

/// The port that a device's link begins at.
struct Slot {
  PciLink possible;
  std::optional<double> target_speed;
};
std::optional<Slot> slot_above(const DeviceHost& host, const HostDevice& device) {
  if (device.function.bridges.empty()) { return std::nullopt; }
  const auto port = read_pci_function(host.root, device.function.bridges.back());
  if (!port) { return std::nullopt; }
  return Slot{port->link_possible, target_link_speed(read_pci_config(*port))};
}

std::string shown(double speed, int width) {
  return fmt::format("{:g} GT/s x{}", speed, width);
}

/// Why a device's link is slower than the device, or empty. An idle GPU's own speed says nothing.
std::string slow_link(const DeviceHost& host, const HostDevice& device) {
  const auto& pci = device.function;
  const auto able = speed_of(pci.link_possible.speed);
  if (!able || pci.link_possible.width == 0) { return ""; }
  const auto can = shown(*able, pci.link_possible.width);
  const auto slot = slot_above(host, device);
  auto most = *able;
  if (slot) {
    const auto slot_speed = speed_of(slot->possible.speed);
    if (slot_speed && slot->possible.width > 0 &&
        (*slot_speed < *able || slot->possible.width < pci.link_possible.width)) {
      return fmt::format("can {}, and its slot {}", can, shown(*slot_speed, slot->possible.width));
    }
    if (const auto target = slot->target_speed; target && *target < *able) { most = *target; }
  }
  if (const auto target = target_link_speed(read_pci_config(pci))) { most = std::min(most, *target); }
  if (most < *able) { return fmt::format("can {}, and its link is held at {:g} GT/s", can, most); }
  const auto now = speed_of(pci.link.speed);
  if (device.device_class == DeviceClass::gpu || !now ||
      (*now >= *able && pci.link.width >= pci.link_possible.width)) {
    return "";
  }
  return fmt::format("can {}, and runs {}", can, shown(*now, pci.link.width));
}

/// Links of a VM are emulated.
bool has_real_links(const DeviceHost& host) {
  return has_gpus(host) && !host.inventory.is_virtual_machine;
}

CheckAnswer links_are_fast(const DeviceHost& host) {
  auto devices = host.gpus();
  for (const auto* adapter : host.active_adapters()) { add_once(devices, adapter); }
  return none_of(
      each(devices, [&](const HostDevice& device) { return slow_link(host, device); }),
      "every GPU's and adapter's link can be as fast as the device",
      "use a slot of the device's speed and width; take the limit off (firmware: PCIe speed of the "
      "slot, auto); an adapter that runs below both: reseat it, look at risers and retimers");
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

/// NUMA node that most devices of a root complex are on: it belongs to one.
std::map<std::string, int> nodes_of_complexes(const DeviceHost& host) {
  std::map<std::string, std::map<int, int>> votes;
  for (const auto* list : {&host.inventory.devices, &host.inventory.other_devices}) {
    for (const auto& device : *list) {
      if (device.function.numa_node >= 0) {
        ++votes[device.function.root_complex][device.function.numa_node];
      }
    }
  }
  std::map<std::string, int> nodes;
  for (const auto& [complex, counts] : votes) {
    nodes[complex] = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->first;
  }
  return nodes;
}

CheckAnswer devices_have_their_numa_node(const DeviceHost& host) {
  auto devices = host.gpus();
  for (const auto* adapter : host.active_adapters()) { add_once(devices, adapter); }
  const auto nodes = nodes_of_complexes(host);
  const auto offenders = each(devices, [&](const HostDevice& device) -> std::string {
    const auto& pci = device.function;
    if (pci.numa_node < 0) { return "is on no NUMA node"; }
    const auto is_it = [&](const NumaNode& node) { return node.id == pci.numa_node; };
    if (std::ranges::none_of(host.inventory.numa_nodes, is_it)) {
      return fmt::format("is on NUMA node {}, which the host does not have", pci.numa_node);
    }
    const auto others = nodes.find(pci.root_complex);
    if (pci.root_complex.empty() || others == nodes.end() || others->second == pci.numa_node) { return ""; }
    return fmt::format("is on NUMA node {}, other devices of {} on {}", pci.numa_node, pci.root_complex,
                       others->second);
  });
  return none_of(offenders, "every GPU and every adapter is on a NUMA node",
                 "update the firmware; until then cores and memory are not placed near it (NUMA node -1: the "
                 "first node's are taken)");
}

bool has_many_nodes(const DeviceHost& host) {
  return has_gpus(host) && host.inventory.numa_nodes.size() > 1;
}

bool has_gpus_and_rdma(const DeviceHost& host) {
  return has_gpus(host) && !host.active_adapters().empty();
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
  const auto without_ats = each(host.active_adapters(), [](const HostDevice& adapter) -> std::string {
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

/// Virtual functions of mlx5 adapters (mlx5_core's table of devices). In a VM nothing else tells that they
/// are.
bool is_virtual(const PciFunction& function) {
  constexpr std::array<std::string_view, 8> devices{"0x1012", "0x1014", "0x1016", "0x1018",
                                                    "0x101a", "0x101c", "0x101e", "0xa2d3"};
  return function.vendor == "0x15b3" && std::ranges::find(devices, function.device) != devices.end();
}

/// A virtual function has its physical one's, and says 0 itself; nothing where that is not ours to read.
std::optional<bool> writes_relaxed(const DeviceHost& host, const HostDevice& adapter) {
  const auto& pci = adapter.function;
  if (pci.physical_function.empty()) {
    return is_virtual(pci) ? std::nullopt : relaxed_ordering(read_pci_config(pci));
  }
  const auto physical = read_pci_function(host.root, pci.physical_function);
  return physical ? relaxed_ordering(read_pci_config(*physical)) : std::nullopt;
}

bool knows_ordering(const DeviceHost& host) {
  const auto adapters = host.active_adapters();
  return has_gpus(host) && std::ranges::any_of(adapters, [&](const auto* adapter) {
           return writes_relaxed(host, *adapter).has_value();
         });
}

CheckAnswer adapters_write_relaxed(const DeviceHost& host) {
  const auto offenders = each(host.active_adapters(), [&](const HostDevice& adapter) {
    return writes_relaxed(host, adapter).value_or(true) ? "" : "may not write with relaxed ordering";
  });
  std::string well = "adapters may write with relaxed ordering";
  for (const auto& [device, ordering] : host.words.write_ordering) {
    well += fmt::format("; {} has PCI_WR_ORDERING {}", device, ordering);
  }
  return none_of(
      offenders, well,
      "allow it in the firmware (PCIe relaxed ordering), or setpci -s ADDRESS CAP_EXP+8.w=10:10, a "
      "virtual function's on its physical one; mlxconfig -d ADDRESS q PCI_WR_ORDERING says whether "
      "every write is relaxed (force_relax) or those that NCCL asks for "
      "(NCCL_IB_PCI_RELAXED_ORDERING: \"1\" in workload.env of both arms). In a VM, with ACS and ATS on, "
      "it matters most");
}

/// An adapter's card, and its models' ports that are up.
CheckAnswer every_adapter_has_a_port(const DeviceHost& host) {
  std::map<std::string, std::set<std::string>> cards, with_port, rates;  // by model
  for (const auto& device : host.inventory.devices) {
    if (device.device_class != DeviceClass::rdma_nic || !device.function.physical_function.empty()) {
      continue;
    }
    const auto model = device.name + " " + device.function.device;
    cards[model].insert(slot_of(device.function.address));
    for (const auto& port : device.ports) {
      if (port.state != "ACTIVE") { continue; }
      with_port[model].insert(slot_of(device.function.address));
      rates[model].insert(port.rate);
    }
  }
  Words wrong, well;
  for (const auto& [model, up] : with_port) {
    const auto all = cards[model].size();
    if (up.size() < all) {
      Words down;
      std::ranges::set_difference(cards[model], up, std::back_inserter(down));
      wrong.push_back(fmt::format("{} of {} adapters of one model have a port that is up, not {}", up.size(),
                                  all, join(down, " ")));
    }
    if (rates[model].size() > 1) {
      wrong.push_back("ports of one model run at different rates: " +
                      join(Words(rates[model].begin(), rates[model].end()), ", "));
    }
    well.push_back(fmt::format("{} × {}", all, *rates[model].begin()));
  }
  return none_of(
      wrong, "adapters that NCCL finds: " + join(well, ", "),
      "NCCL uses ports that are up, and of all nodes as many as the one with the fewest: bring up the "
      "others (cable, switch, subnet manager), or name those to use by NCCL_IB_HCA in both arms");
}

/// Ethernet ports that are up, of those that run at the highest rate: slower ones carry the host's own
/// traffic.
std::vector<std::pair<const HostDevice*, const NetworkPort*>> fast_ethernet_ports(const DeviceHost& host) {
  std::vector<std::pair<const HostDevice*, const NetworkPort*>> found;
  double highest = 0;
  for (const auto* adapter : host.active_adapters()) {
    for (const auto& port : adapter->ports) {
      const auto rate = speed_of(port.rate).value_or(0);
      if (port.state != "ACTIVE" || rate < highest) { continue; }
      if (rate > highest) { found.clear(); }
      highest = rate;
      if (port.link_layer == "Ethernet" && port.mtu_bytes) { found.emplace_back(adapter, &port); }
    }
  }
  return found;
}

bool has_ethernet(const DeviceHost& host) {
  return has_gpus(host) && !fast_ethernet_ports(host).empty();
}

/// RDMA over Ethernet has MTUs of 256 to 4096 bytes by powers of two, and a header besides.
CheckAnswer ports_take_large_packets(const DeviceHost& host) {
  constexpr int large = 4200, middle = 2200;
  std::set<int> different;
  Words offenders;
  for (const auto& [adapter, port] : fast_ethernet_ports(host)) {
    const int mtu = *port->mtu_bytes;
    different.insert(mtu);
    if (mtu >= large) { continue; }
    offenders.push_back(fmt::format("{} has MTU {} on {}, which leaves RDMA {}", adapter->function.address,
                                    mtu, port->interface, mtu < middle ? 1024 : 2048));
  }
  constexpr const char* fix =
      "ip link set INTERFACE mtu 9000 on all hosts, guests and switches alike (4200 is enough for RDMA's "
      "4096)";
  if (offenders.empty() && different.size() > 1) {
    return {fmt::format("adapters have MTUs from {} to {}", *different.begin(), *different.rbegin()), fix};
  }
  return none_of(offenders, "room for RDMA's largest packets", fix);
}

bool is_vm_with_gpus(const DeviceHost& host) {
  return has_gpus(host) && host.inventory.is_virtual_machine;
}

/// NCCL takes the slowest link that sysfs shows on the way from a GPU or adapter to its root port.
CheckAnswer emulated_links_are_fast(const DeviceHost& host) {
  constexpr double emulated = 2.5;  // GT/s, of QEMU's switch ports; old root ports say nothing
  auto devices = host.gpus();
  for (const auto* adapter : host.active_adapters()) { add_once(devices, adapter); }
  const auto offenders = each(devices, [&](const HostDevice& device) -> std::string {
    if (speed_of(device.function.link_possible.speed).value_or(0) <= emulated) { return ""; }
    for (const auto& bridge : device.function.bridges) {
      const auto port = read_pci_function(host.root, bridge);
      if (!port || speed_of(port->link_possible.speed).value_or(0) > emulated) { continue; }
      const auto& link = port->link_possible;
      return fmt::format("is below {}, an emulated port that says {} x{}", bridge,
                         link.speed.empty() ? "no speed" : link.speed, link.width);
    }
    return "";
  });
  return none_of(offenders, "no emulated port says that it is slow",
                 "NCCL reads these as 0.2 GB/s and plans around them: on the host, virtrain topology "
                 "--for-guest DOMAIN.xml writes a file of the real links; give it to the ranks by "
                 "NCCL_TOPO_FILE (virtrain's own VMs have it)");
}

}  // namespace

std::span<const DeviceCheck> link_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"LNK-1", Severity::invalidates, "each GPU's PCIe link has all its lanes", when_gpus,
                  has_gpus, links_are_wide},
      DeviceCheck{"LNK-2", Severity::warns, "links of GPUs and RDMA adapters can be as fast as the device",
                  "there are GPUs, and the host is not a virtual machine", has_real_links, links_are_fast},
      DeviceCheck{"TOP-1", Severity::warns,
                  "emulated PCIe ports above GPUs and adapters do not look slow to NCCL",
                  "the host is a virtual machine with GPUs", is_vm_with_gpus, emulated_links_are_fast,
                  "NVIDIA/nccl-tests#256, NVIDIA/nccl#1329, #1674"},
      DeviceCheck{"AER-1", Severity::invalidates, "no uncorrected PCIe error has happened since the start",
                  "the kernel counts the devices' PCIe errors", counts_errors, no_link_errors},
      DeviceCheck{"NUM-0", Severity::warns,
                  "the firmware tells the right NUMA node of each GPU and RDMA adapter",
                  "there are GPUs and several NUMA nodes", has_many_nodes, devices_have_their_numa_node},
      DeviceCheck{"RDM-1", Severity::invalidates, "RDMA adapters can read and write GPU memory directly",
                  "there are GPUs and an RDMA adapter whose port is up", has_gpus_and_rdma,
                  gpus_reach_the_network, "NVIDIA/nccl#949, #1464"},
      DeviceCheck{
          "RDM-2", Severity::warns, "RDMA adapters may write with relaxed ordering",
          "there are GPUs and an RDMA adapter whose port is up, and we may read its configuration space "
          "(root)",
          knows_ordering, adapters_write_relaxed, "NVIDIA/nccl#1205, NVIDIA/nccl-tests#201"},
      DeviceCheck{"RDM-3", Severity::warns,
                  "all RDMA adapters of a model have a port that is up, at one rate",
                  "there are GPUs and an RDMA adapter whose port is up", has_gpus_and_rdma,
                  every_adapter_has_a_port, "NVIDIA/nccl#977, #1519"},
      DeviceCheck{"NET-3", Severity::warns, "RDMA ports on Ethernet take packets of 4,096 bytes",
                  "there are GPUs, and the fastest RDMA ports that are up are Ethernet and tell their MTU",
                  has_ethernet, ports_take_large_packets, "NVIDIA/nccl#1957"},
  };
  return checks;
}

}  // namespace virtrain::vmctl
