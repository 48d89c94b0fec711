#include "harness/plan/placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/plan/device_demand.h"
#include "harness/plan/devices/lack.h"
#include "harness/plan/host_room.h"
#include "vmctl/api/limits.h"

namespace virtrain::harness {
namespace {

/// Memory of a CPU rank with the smallest batch: parameters, gradients, momentum, and the libraries (seen:
/// 350 MiB alone, 350-440 MiB with others).
constexpr std::uint64_t least_rank_bytes = 400ULL << 20;

std::string mac_of(const char* upper, std::uint32_t lower) {
  return fmt::format("{}:{:02x}:{:02x}:{:02x}", upper, lower >> 16 & 0xff, lower >> 8 & 0xff, lower & 0xff);
}

NodePlacement make_node(std::size_t tenant, std::int64_t n, std::int64_t index) {
  NodePlacement node;
  node.hostname = node_name(tenant, n);
  // Each tenant's network is a bridge of its own, so all of them may use the same addresses.
  node.address = fmt::format("10.77.{}.{}/16", n / 250, n % 250 + 1);
  node.mac = mac_of("52:54:00", static_cast<std::uint32_t>(index));
  return node;
}

/// `left` are the cores of no node; but where cores are shared, vCPUs may sit there too.
void give_emulator_cores(Placement& placement, const std::vector<int>& left) {
  std::set<int> used;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) { used.insert(node.cores.begin(), node.cores.end()); }
  }
  std::vector<int> spare;
  for (const int core : left) {
    if (!used.contains(core)) { spare.push_back(core); }
  }
  for (auto& tenant : placement.tenants) {
    for (auto& node : tenant.nodes) { node.emulator_cores = spare; }
  }
}

bool has_own_cores(const std::optional<Neighbour>& neighbour) {
  return !neighbour || neighbour->share != Share::core;
}

/// Devices of a victim's neighbour that share something with the victim's; nothing where none do. The arm
/// with the most nodes counts. The second node of "net" only receives, so that it shares its cores, and no
/// card or switch.
std::optional<Sharing> sharing_of(const Scenario& scenario, const Case& wanted) {
  const auto& victim = wanted.tenants[0];
  if (!scenario.isolation || victim.neighbour || victim.gpus_per_node == 0) { return std::nullopt; }
  const auto& neighbours = scenario.isolation->neighbours;
  if (!need_gpus(neighbours) || neighbours[0].share == Share::host) { return std::nullopt; }
  Sharing sharing{neighbours[0].share, static_cast<std::size_t>(victim.gpus_per_node), 1};
  for (const auto& one : neighbours) {
    const auto nodes = static_cast<std::size_t>(one.nodes());
    if (is_of_numa_node(one.share)) { sharing.nodes = std::max(sharing.nodes, nodes); }
  }
  return sharing;
}

/// Without devices of which nobody knows whether they share it: the NUMA node of some has no name.
Offer known_to_share(Offer offer, const Sharing& sharing, const vmctl::Inventory& inventory) {
  if (is_of_numa_node(sharing.share) && inventory.numa_nodes.size() > 1) {
    std::erase_if(offer.slots, [](const DeviceSlot& slot) { return slot.device.numa_node < 0; });
  }
  return offer;
}

const char* in_common_words(Share share) {
  switch (share) {
    case Share::card:
      return "on the victim's card";
    case Share::switch_:
      return "below a PCIe bridge of the victim's";
    default:
      return "on the victim's NUMA node";
  }
}

/// The same host once nobody uses its devices.
vmctl::Inventory without_users(vmctl::Inventory inventory) {
  for (auto* list : {&inventory.devices, &inventory.other_devices}) {
    for (auto& device : *list) { device.users.clear(); }
  }
  return inventory;
}

/// " (make them: …)": how the NIC gets as many virtual functions; empty where that is not what it lacks.
std::string way_to_functions(const std::string& nic, const vmctl::Inventory& inventory, std::size_t wanted) {
  const auto* device = vmctl::find_nic(inventory, nic);
  if (device == nullptr) { return ""; }
  const auto possible = device->function.virtual_functions_possible;
  const auto there = device->function.virtual_functions.size();
  if (possible == 0 || there >= wanted) { return ""; }
  if (std::cmp_less(possible, wanted)) {
    return fmt::format(" (it can have {} at most: use fewer nodes on this host)", possible);
  }
  return fmt::format(" (make them: {})",
                     vmctl::command_for_functions(nic, static_cast<std::int64_t>(wanted), there > 0));
}

/// "one node of 2 vCPUs needs", "3 nodes of 2 vCPUs need".
std::string needing(std::int64_t nodes, const std::string& size) {
  return nodes == 1 ? fmt::format("one node of {} needs", size)
                    : fmt::format("{} nodes of {} need", nodes, size);
}

}  // namespace

std::string node_name(std::size_t tenant, std::int64_t node) {
  return fmt::format("t{}n{}", tenant + 1, node + 1);
}

std::int64_t threads_per_rank(const Tenant& tenant, const Guest& guest) {
  return tenant.workload.threads.value_or(
      std::max<std::int64_t>(1, guest.vcpus / std::max<std::int64_t>(1, tenant.ranks_per_node)));
}

std::string derived_mac(const char* upper, const std::string& text, std::set<std::uint32_t>& taken) {
  constexpr std::uint32_t lower_bits = 0xffffff;
  auto lower = static_cast<std::uint32_t>(std::stoul(sha256(text).substr(0, 6), nullptr, 16));
  while (!taken.insert(lower).second) { lower = (lower + 1) & lower_bits; }
  return mac_of(upper, lower);
}

std::string function_mac(const std::string& hostname, const std::string& address,
                         std::set<std::uint32_t>& taken) {
  return derived_mac("52:54:01", hostname + " " + address, taken);
}

Placement Placer::place(const Case& wanted, bool in_vms, const std::vector<NodeNumber>& numbers) {
  Placement out{wanted.name, wanted.key, {}, false, wanted.guest, wanted.devices};
  check_totals(wanted, in_vms, out);
  warn_of_little_memory(wanted);
  std::int64_t index = 0;
  for (const auto& tenant : wanted.tenants) {
    TenantPlacement placed{tenant.name, tenant.workload, tenant.gpus_per_node, tenant.ranks_per_node, 1,
                           {},          tenant.neighbour};
    placed.threads_per_rank = threads_per_rank(tenant, wanted.guest);
    const auto t = out.tenants.size();
    const auto first = numbers.empty() ? NodeNumber{t} : numbers[t];
    for (std::int64_t n = 0; n < tenant.nodes; ++n, ++index) {
      auto node = make_node(first.tenant, first.node + n, index);
      node.memory_bytes = wanted.guest.memory_bytes;
      node.limits = tenant.limits;
      if (tenant.scratch_disk) { node.scratch_bytes = vmctl::most_scratch_bytes; }
      placed.nodes.push_back(std::move(node));
    }
    out.tenants.push_back(std::move(placed));
  }
  place_devices(wanted, out);
  place_network_functions(out);
  place_cores(out);
  if (in_vms) { check_vms(out); }
  return out;
}

void Placer::give(NodePlacement& node, const DeviceChoice& choice, std::set<std::uint32_t>& macs) {
  for (const auto& slot : choice.slots) {
    auto device = slot.device;
    if (device.is_ethernet && device.grant.kind == vmctl::GrantKind::virtual_function) {
      device.mac = function_mac(inventory_.hostname, device.grant.address, macs);
    }
    node.devices.push_back(std::move(device));
  }
  if (choice.reason.empty()) { return; }
  node.devices_reason += (node.devices_reason.empty() ? "" : "; ") + choice.reason;
}

void Placer::warn_of_distance(const std::string& case_name, const NodePlacement& node,
                              const DeviceChoice& choice) {
  const bool could_be = std::any_of(choice.slots.begin(), choice.slots.end(),
                                    [](const auto& slot) { return !slot.device.nvlink_peers.empty(); });
  if (could_be && !choice.joined_by_nvlink) {
    warnings_.push_back(fmt::format("case {}: the GPUs of {} are not all joined by NVLink ({})", case_name,
                                    node.hostname, choice.reason));
  }
}

/// Both arms meet PCIe's limits, but not alike.
void Placer::warn_of_peers(const std::string& case_name, const NodePlacement& node,
                           const DeviceChoice& choice) {
  const auto gpus = std::ranges::count_if(choice.slots, [](const auto& slot) {
    return slot.device.device_class == vmctl::DeviceClass::gpu && slot.device.has_acs_above;
  });
  if (gpus < 2 || choice.joined_by_nvlink || !has_arm(scenario_, arm_bare_metal)) { return; }
  warnings_.push_back(fmt::format(
      "case {}: the GPUs of {} reach each other by PCIe alone, and ACS sends that through the root complex: "
      "on bare metal it may halve or hang, in a VM it is off unless devices.clique says otherwise (leave ACS "
      "on where tenants share the host, never pci=noacs; compare arms with NCCL_P2P_DISABLE: \"1\" in "
      "workload.env of both, or with devices.clique)",
      case_name, node.hostname));
}

/// By what the validity rule NUM-1 judges, so that nobody runs a night of trials to hear of it.
void Placer::warn_of_far_cores(const std::string& case_name, const NodePlacement& node,
                               const std::vector<int>& near) {
  const auto is_near = [&](int numa_node) { return contains(near, numa_node); };
  if (near.empty() || std::all_of(node.core_numa_nodes.begin(), node.core_numa_nodes.end(), is_near)) {
    return;
  }
  const bool has_gpu = std::any_of(node.devices.begin(), node.devices.end(), [](const auto& device) {
    return device.device_class == vmctl::DeviceClass::gpu;
  });
  warnings_.push_back(
      fmt::format("case {}: {} has its devices on NUMA node {} and cores elsewhere{} (use fewer vcpus)",
                  case_name, node.hostname, fmt::join(near, ", "),
                  has_gpu ? ", so each of its trials will be invalid by NUM-1" : ""));
}

/// Devices of the victim and of the neighbour's nodes that have to share with it, by node. All arms ask for
/// the same, those without a neighbour too, so that the victim has the same devices in each. Empty where
/// nothing is to be shared or, which is noted, nothing can be.
std::map<std::string, DeviceChoice> Placer::take_shared(const Case& wanted, DeviceAllocator& allocator) {
  const auto sharing = sharing_of(scenario_, wanted);
  if (!sharing) { return {}; }
  const auto& victim = wanted.tenants[0];
  const auto offer = offered_devices(wanted.devices, victim.vgpu_type, inventory_, lends_to_vms(scenario_));
  if (offer.slots.size() < sharing->count * (static_cast<std::size_t>(victim.nodes) + sharing->nodes)) {
    return {};  // too few however they are given out, which is said of all nodes together
  }
  std::map<std::string, DeviceChoice> by_node;
  for (auto& choice : allocator.take_sharing(known_to_share(offer, *sharing, inventory_), *sharing)) {
    const auto name = by_node.empty() ? node_name(0, 0) : node_name(1, std::ssize(by_node) - 1);
    by_node.emplace(name, std::move(choice));
  }
  if (by_node.empty()) { note_nothing_to_share(wanted, *sharing, offer.reasons); }
  return by_node;
}

/// A lack that only users of devices cause is busy.
void Placer::note_nothing_to_share(const Case& wanted, const Sharing& sharing,
                                   const std::vector<std::string>& reasons) {
  const auto idle = offered_devices(wanted.devices, wanted.tenants[0].vgpu_type, without_users(inventory_),
                                    lends_to_vms(scenario_));
  const bool is_busy = !DeviceAllocator(wanted.devices.spread)
                            .take_sharing(known_to_share(idle, sharing, inventory_), sharing)
                            .empty();
  auto& problems = is_busy ? busy_ : problems_;
  problems.emplace_back(fmt::format(
      "{}{} lacks {} for the neighbour {}, whichever the victim gets (use share: host, or let devices.select "
      "allow more){}",
      about_share(wanted.name, sharing.share), inventory_.hostname,
      counted(sharing.count * sharing.nodes, "free device"), in_common_words(sharing.share),
      reasons.empty() ? "" : ": " + join(reasons, "; ")));
}

/// "isolated.yaml:9:10: case a: share core: "
std::string Placer::about_share(const std::string& case_name, Share share) const {
  return fmt::format("{}: case {}: share {}: ", scenario_.isolation.value().share_place, case_name,
                     to_string(share));
}

/// Nodes with the most devices choose first, so that single ones do not break pairs up; adapters come last,
/// near what was chosen.
void Placer::place_devices(const Case& wanted, Placement& out) {
  const auto& devices = wanted.devices;
  if (devices.kind == DeviceKind::none) { return; }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < wanted.tenants.size(); ++i) { order.push_back(i); }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return wanted.tenants[a].gpus_per_node > wanted.tenants[b].gpus_per_node;
  });
  const bool for_vms = lends_to_vms(scenario_);
  DeviceAllocator allocator(devices.spread, vmctl::active_partitions(inventory_));
  std::set<std::uint32_t> macs;
  DeviceShortage shortage;
  std::vector<std::pair<NodePlacement*, DeviceChoice>> chosen;
  const auto shared = take_shared(wanted, allocator);
  for (const auto i : order) {
    const auto& tenant = wanted.tenants[i];
    const auto offer = offered_devices(devices, tenant.vgpu_type, inventory_, for_vms);
    for (auto& node : out.tenants[i].nodes) {
      const auto found = shared.find(node.hostname);
      auto choice = found != shared.end() ? found->second : take_devices(offer, allocator, out.tenants[i]);
      const auto gpus = static_cast<std::size_t>(out.tenants[i].gpus_per_node);
      shortage.add(devices, tenant.vgpu_type, gpus, std::min(gpus, choice.slots.size()), offer);
      give(node, choice, macs);
      node.clique = devices.clique;
      warn_of_distance(out.case_name, node, choice);
      warn_of_peers(out.case_name, node, choice);
      chosen.emplace_back(&node, std::move(choice));
    }
  }
  if (devices.nics) {
    const auto offer = offered_nics(devices, inventory_, for_vms);
    const auto per_node = static_cast<std::size_t>(devices.nics->per_node);
    std::vector<std::vector<DeviceSlot>> near;
    near.reserve(chosen.size());
    for (const auto& [node, choice] : chosen) { near.push_back(choice.slots); }
    const auto nics = allocator.take_nics(offer, per_node, near);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      shortage.add_nics(per_node, nics[i].slots.size(), offer);
      give(*chosen[i].first, nics[i], macs);
    }
  }
  auto& problems = shortage.is_only_busy() ? busy_ : problems_;
  auto lacks = shortage.problems(inventory_.hostname);
  for (auto& lack : lacks) { lack.words = "case " + wanted.name + ": " + lack.words; }
  problems.insert(problems.end(), lacks.begin(), lacks.end());
  for (auto& [node, choice] : chosen) { device_numa_nodes_[node->hostname] = choice.numa_nodes; }
}

/// A virtual function for each node, which both arms of a pair have.
void Placer::place_network_functions(Placement& out) {
  const bool for_vms = lends_to_vms(scenario_), for_slices = has_arm(scenario_, arm_bare_metal);
  if (network_.kind != vmctl::HostNetworkKind::vf || (!for_vms && !for_slices)) { return; }
  auto offer = offered_network_functions(network_.name, inventory_, for_vms, for_slices);
  std::set<std::string> given;  // as devices
  for (const auto& tenant : out.tenants) {
    for (const auto& node : tenant.nodes) {
      for (const auto& address : node.device_addresses()) { given.insert(address); }
    }
  }
  std::erase_if(offer.slots, [&](const DeviceSlot& slot) { return given.contains(slot.id); });
  auto next = offer.slots.begin();
  std::size_t wanted = 0;
  for (auto& tenant : out.tenants) {
    for (auto& node : tenant.nodes) {
      ++wanted;
      if (next != offer.slots.end()) { node.network_function = (next++)->device; }
    }
  }
  if (wanted <= offer.slots.size()) { return; }
  auto& problems = wanted <= offer.slots.size() + offer.in_use ? busy_ : problems_;
  problems.emplace_back(fmt::format("case {}: {} on {} need a virtual function of {} each, {} can be had{}{}",
                                    out.case_name, counted(wanted, "node"), inventory_.hostname,
                                    network_.name, offer.slots.size(),
                                    offer.reasons.empty() ? "" : ": " + join(offer.reasons, "; "),
                                    way_to_functions(network_.name, inventory_, wanted)));
}

/// A lack that only another run's cores cause is busy.
void Placer::place_cores(Placement& out) {
  const auto lacks = place_cores_of(inventory_, out);
  const auto leased = inventory_.leased_cores.size();
  const bool is_busy = !lacks.empty() && leased > 0 && fits_without_leases(out);
  for (const auto& what : lacks) {
    auto& problems = is_busy ? busy_ : problems_;
    problems.emplace_back(is_busy ? fmt::format("{}; another run holds {}", what, counted(leased, "core"))
                                  : what);
  }
  for (const auto& tenant : out.tenants) {
    for (const auto& node : tenant.nodes) {
      warn_of_far_cores(out.case_name, node, device_numa_nodes_[node.hostname]);
    }
  }
  device_numa_nodes_.clear();
}

bool Placer::fits_without_leases(Placement placement) const {
  for (auto& tenant : placement.tenants) {
    for (auto& node : tenant.nodes) { node.cores.clear(); }
  }
  auto idle = inventory_;
  idle.leased_cores.clear();
  return place_cores_of(idle, placement).empty();
}

/// Cores near the node's devices where it has any; a neighbour's as its share asks. Returns what the host
/// lacks for it.
std::vector<std::string> Placer::place_cores_of(const vmctl::Inventory& host, Placement& out) const {
  std::vector<std::string> lacks;
  const auto count = static_cast<std::size_t>(out.guest.vcpus);
  std::size_t with_own = 0;
  for (const auto& tenant : out.tenants) {
    with_own += has_own_cores(tenant.neighbour) ? tenant.nodes.size() : 0;
  }
  const auto smt = out.guest.smt;
  CoreAllocator cores(host, with_own * count, numa_memory(host, out.guest, emulated_), smt);
  for (auto& tenant : out.tenants) {
    for (auto& node : tenant.nodes) {
      const auto found = device_numa_nodes_.find(node.hostname);
      const auto near = found == device_numa_nodes_.end() ? std::vector<int>() : found->second;
      if (tenant.neighbour && tenant.neighbour->share != Share::host) {
        node.cores = neighbour_cores(out, *tenant.neighbour, cores, lacks);
      }
      if (near.size() > 1 && node.cores.empty()) { node.cores = cores.take_over(count, near); }
      const auto one = near.size() == 1 ? std::optional(near[0]) : std::nullopt;
      if (node.cores.empty()) { node.cores = cores.take(count, one); }
      if (node.cores.empty() && smt != vmctl::Smt::any) {
        lacks.push_back(fmt::format(
            "case {}: smt: {}: {} lacks {} for {} (use fewer vcpus or nodes, or smt: any)", out.case_name,
            to_string(smt), host.hostname,
            smt == vmctl::Smt::apart ? counted(count, "whole core")
                                     : counted(count, "thread of whole cores", "threads of whole cores"),
            node.hostname));
      }
      if (node.cores.empty() && !host.cores.empty()) { node.cores = cores.share(count); }
      cores.take_memory(node.cores);
      node.numa_node = cores.common_numa_node(node.cores);
      node.core_numa_nodes = cores.numa_nodes_of(node.cores);
    }
  }
  give_emulator_cores(out, cores.remaining());
  return lacks;
}

/// Cores of one node; adds to `problems` where the host has no such place.
std::vector<int> Placer::neighbour_cores(const Placement& placement, const Neighbour& neighbour,
                                         CoreAllocator& cores, std::vector<std::string>& problems) const {
  const auto& victim = placement.tenants[0].nodes[0];
  const auto count = static_cast<std::size_t>(placement.guest.vcpus);
  const auto lacks = [&](const std::string& what) {
    problems.push_back(fmt::format("{}{} lacks {} {} (use share: host, or fewer vcpus)",
                                   about_share(placement.case_name, neighbour.share), inventory_.hostname,
                                   counted(count, "free core"), what));
    return std::vector<int>();
  };
  if (neighbour.share == Share::core) { return cores.beside(victim.cores, count); }
  if (neighbour.share == Share::llc) {
    auto found = cores.take_sharing_cache(victim.cores, count);
    return found.empty() ? lacks("with the victim's last-level cache") : found;
  }
  if (neighbour.share == Share::node && !victim.numa_node) {
    problems.push_back(
        fmt::format("{}the victim's cores are on several NUMA nodes (use guest.pinning: numa, fewer vcpus, "
                    "or share: host)",
                    about_share(placement.case_name, neighbour.share)));
  } else if (neighbour.share == Share::node) {
    auto found = cores.take_over(count, {*victim.numa_node});
    return found.empty() ? lacks("on the victim's NUMA node") : found;
  }
  return {};
}

void Placer::check_totals(const Case& wanted, bool in_vms, Placement& out) {
  const auto cores = inventory_.cores.size();
  std::int64_t nodes = 0, needed = 0;
  bool crowded = false;  // a node's ranks share its vCPUs, however many cores the host has
  for (const auto& tenant : wanted.tenants) {
    nodes += tenant.nodes;
    if (!has_own_cores(tenant.neighbour)) { continue; }
    needed += tenant.nodes * std::max(wanted.guest.vcpus, tenant.ranks_per_node);
    crowded = crowded || tenant.ranks_per_node > wanted.guest.vcpus;
  }
  out.oversubscribed = crowded || needed > static_cast<std::int64_t>(cores);
  if (inventory_.cores.empty()) { problems_.emplace_back("no core of this host may be used"); }
  if (out.oversubscribed && !scenario_.oversubscribe) {
    problems_.emplace_back(fmt::format("case {}: {} {}, host {} has {} (use fewer, or oversubscribe: true)",
                                       wanted.name, needing(nodes, counted(wanted.guest.vcpus, "vCPU")),
                                       counted(needed, "core"), inventory_.hostname, cores),
                           "cores", static_cast<double>(needed));
  }
  const std::uint64_t overhead = in_vms ? qemu_overhead(emulated_) : 0;
  const auto own = in_vms ? fmt::format(" and QEMU's own {}", format_size(overhead)) : "";
  const std::uint64_t memory = static_cast<std::uint64_t>(nodes) * (wanted.guest.memory_bytes + overhead);
  if (memory > inventory_.memory_bytes) {
    problems_.emplace_back(
        fmt::format("case {}: {} {}, host {} has {}", wanted.name,
                    needing(nodes, fmt::format("{}{}{}", format_size(wanted.guest.memory_bytes), own,
                                               nodes == 1 ? "" : " each")),
                    format_size(memory), inventory_.hostname, format_size(inventory_.memory_bytes)),
        "memory", static_cast<double>(memory));
  }
}

void Placer::check_vms(const Placement& placement) {
  const auto found = vm_findings(placement, scenario_, inventory_, emulated_);
  problems_.insert(problems_.end(), found.problems.begin(), found.problems.end());
  busy_.insert(busy_.end(), found.busy.begin(), found.busy.end());
  for (const auto& words : found.warnings) { add_once(warnings_, words); }
}

/// GPUs for a node, and beside them what no rank of backend cuda drives: NVSwitches of a whole board, and
/// whatever shares their IOMMU groups. `gpus_per_node` may count all that is selected.
DeviceChoice Placer::take_devices(const Offer& offer, DeviceAllocator& allocator, TenantPlacement& tenant) {
  const bool for_cuda = !tenant.neighbour && tenant.workload.backend == Backend::cuda;
  const auto has_no_rank = [&](const DeviceSlot& slot) {
    const auto device_class = slot.device.device_class;
    return device_class == vmctl::DeviceClass::nvswitch ||
           (for_cuda && device_class != vmctl::DeviceClass::gpu);
  };
  Offer gpus = offer, others = offer;
  std::erase_if(gpus.slots, has_no_rank);
  std::erase_if(others.slots, std::not_fn(has_no_rank));
  const auto is_other = [&](const std::string& id) {
    return std::ranges::any_of(others.slots, [&](const auto& slot) { return slot.id == id; });
  };
  for (auto& slot : gpus.slots) { std::erase_if(slot.companions, is_other); }
  const auto wanted = static_cast<std::size_t>(tenant.gpus_per_node);
  const auto is_switch = [](const DeviceSlot& slot) {
    return slot.device.device_class == vmctl::DeviceClass::nvswitch;
  };
  const bool takes_all = wanted == offer.slots.size() && !gpus.slots.empty();
  const bool takes_switches = wanted == gpus.slots.size() && std::ranges::any_of(others.slots, is_switch);
  auto choice = allocator.take(gpus, takes_all ? gpus.slots.size() : wanted);
  Offer beside;
  for (const auto& slot : others.slots) {
    const bool is_companion = std::ranges::any_of(choice.slots, [&](const auto& one) {
      return one.iommu_group && one.iommu_group == slot.iommu_group;
    });
    if (takes_all || is_companion || (takes_switches && is_switch(slot))) { beside.slots.push_back(slot); }
  }
  if (beside.slots.empty()) { return choice; }
  std::vector<std::string> words;
  for (const auto& slot : beside.slots) {
    choice.slots.push_back(slot);
    if (!is_switch(slot)) { words.push_back(slot.id); }
  }
  const auto switches = beside.slots.size() - words.size();
  if (switches > 0) { words.push_back(counted(switches, "NVSwitch", "NVSwitches")); }
  choice.reason += ", with " + join(words, " ");
  allocator.keep({beside.slots, {}, true, {}});
  if (takes_all) {
    if (tenant.ranks_per_node == tenant.gpus_per_node) { tenant.ranks_per_node = std::ssize(gpus.slots); }
    tenant.gpus_per_node = std::ssize(gpus.slots);
  }
  return choice;
}

void Placer::warn_of_little_memory(const Case& wanted) {
  std::int64_t ranks = 0;
  for (const auto& tenant : wanted.tenants) {
    if (!tenant.workload.job && tenant.workload.backend == Backend::cpu) {
      ranks = std::max(ranks, tenant.ranks_per_node);
    }
  }
  const auto needed = static_cast<std::uint64_t>(ranks) * least_rank_bytes;
  if (needed > wanted.guest.memory_bytes) {
    warnings_.push_back(
        fmt::format("case {}: {} in a node of {} will most likely run out of memory and be killed (each "
                    "takes at least {})",
                    wanted.name, counted(ranks, "rank"), format_size(wanted.guest.memory_bytes),
                    format_size(least_rank_bytes)));
  }
}

namespace {

constexpr const char* reserve_pages =
    "reserve them on the kernel's command line or by vm.nr_hugepages, or leave guest.hugepages out";
constexpr const char* not_the_default =
    "{} pages of 1GiB are free here and are not the default size, which VMs get: add default_hugepagesz=1G "
    "to the kernel's command line";
constexpr const char* leave_numa_node = "use less memory, fewer nodes, or pinning: cores";

struct VmCheck {
  const Scenario& scenario;
  const vmctl::Inventory& inventory;
  bool emulated;
  VmFindings found = {};

  void check_all(const Placement& placement) {
    constexpr std::int64_t most_vcpus = 255;  // more need an IOMMU in the guest that extends interrupts
    if (placement.guest.vcpus > most_vcpus) {
      found.problems.push_back(
          fmt::format("case {}: its VMs have {} vCPUs, and libvirt starts none with more than {}",
                      placement.case_name, placement.guest.vcpus, most_vcpus));
    }
    check_vm_memory(placement);
    for (const auto& tenant : placement.tenants) {
      for (const auto& node : tenant.nodes) { check_vm_devices(placement, node); }
    }
    if (!placement.guest.is_mirror()) {
      return;  // its peers' names come from the seed
    }
    const auto length = [](const NodePlacement& node) { return node.hostname.size() + node.address.size(); };
    for (const auto& tenant : placement.tenants) {
      const auto longest =
          std::max_element(tenant.nodes.begin(), tenant.nodes.end(),
                           [&](const auto& a, const auto& b) { return length(a) < length(b); });
      auto boot = vmctl::guest_boot({tenant.nodes.begin(), tenant.nodes.end()}, *longest, true);
      boot.has_payload = !payload_of(tenant).empty();
      try {
        vmctl::guest_command_line(boot);
      } catch (const Error& error) {
        found.problems.push_back(fmt::format("case {}: {}: {} (use fewer nodes in a tenant)",
                                             placement.case_name, tenant.name, error.message()));
      }
    }
  }

  /// Checks a VM's devices against firmware, NVSwitches and old kernels.
  void check_vm_devices(const Placement& placement, const NodePlacement& node) {
    const auto about = [&](const std::string& words) {
      return fmt::format("case {}: {}: {}", placement.case_name, node.hostname, words);
    };
    const auto fabric = vmctl::fabric_lack(inventory, node.devices);
    if (!fabric.words.empty()) {
      if (fabric.is_certain) {
        add_once(found.problems, Lack(about(fabric.words)));
      } else {
        add_once(found.warnings, about(fabric.words));
      }
    }
    const auto own_bits = own_address_bits(placement.guest);
    const int bits = own_bits > 0 ? own_bits : inventory.address_bits;
    if (const auto needed = vmctl::region_bytes(node.devices);
        bits > 0 && needed > vmctl::region_room(bits)) {
      found.problems.push_back(about(fmt::format(
          "the memory regions of its devices need {} of guest addresses, and {} has {} address "
          "bits, of which firmware keeps {} for them ({})",
          format_size(needed), own_bits > 0 ? "CPU model " + placement.guest.cpu_model : "the host", bits,
          format_size(vmctl::region_room(bits)),
          own_bits > 0 ? "use guest.cpu_model: host, or fewer GPUs a VM" : "use fewer GPUs a VM")));
    }
    const bool maps_for_minutes = std::ranges::any_of(
        node.devices, [](const auto& device) { return vmctl::has_huge_region(device.bars); });
    if (maps_for_minutes && scenario.boot_timeout_ns < vmctl::slow_boot_timeout_ns &&
        !vmctl::is_since(inventory.kernel, 6, 12)) {
      add_once(
          found.warnings,
          fmt::format("boot_timeout: {} is too short here: Linux {} maps memory regions of 64 GiB and more "
                      "page by page, so a guest takes minutes to find its GPUs (VER-3; use {} or more)",
                      format_seconds(static_cast<double>(scenario.boot_timeout_ns) * 1e-9), inventory.kernel,
                      format_seconds(static_cast<double>(vmctl::slow_boot_timeout_ns) * 1e-9)));
    }
  }

  /// Where pinning says from which NUMA node it comes, memory comes from nowhere else; and huge pages are
  /// reserved or not there.
  void check_vm_memory(const Placement& placement) {
    const bool huge = placement.guest.hugepages;
    const auto wanted = huge ? wanted_memory(placement, placement.guest, inventory.hugepage_bytes, 0)
                             : wanted_memory(placement, placement.guest, 1, qemu_overhead(emulated));
    // Another run may have the pages that are missing, until it ends.
    auto& problems = huge && !inventory.leased_cores.empty() ? found.busy : found.problems;
    const auto refuse = [&](std::uint64_t bytes, const std::string& where, std::uint64_t there) {
      const auto page = inventory.hugepage_bytes;
      std::uint64_t large_pages = 0;
      for (const auto& node : inventory.numa_nodes) { large_pages += node.free_hugepages_1gib; }
      const bool is_not_default = large_pages > 0 && page != 1ULL << 30;
      const auto lack =
          huge ? fmt::format("{} of {}, {} has {} free ({})", counted(bytes / page, "huge page"),
                             format_size(page), where, there / page,
                             is_not_default ? fmt::format(not_the_default, large_pages) : reserve_pages)
               : fmt::format("{}, QEMU's own included, {} has {} ({})", format_size(bytes), where,
                             format_size(there), leave_numa_node);
      problems.emplace_back(fmt::format("case {}: its VMs need {}", placement.case_name, lack),
                            huge ? "huge pages" : "memory", static_cast<double>(bytes));
    };
    const std::uint64_t surplus = huge ? inventory.surplus_hugepage_bytes : 0;
    std::uint64_t everywhere = surplus;
    bool any_lacks = false;
    for (const auto& node : inventory.numa_nodes) {
      const auto own = huge ? free_hugepage_bytes(inventory, node) : node.memory_bytes;
      const auto there = own + surplus;
      everywhere += own;
      const auto found = wanted.by_node.find(node.id);
      if (found == wanted.by_node.end() || found->second <= there) { continue; }
      refuse(found->second, fmt::format("NUMA node {} of host {}", node.id, inventory.hostname), there);
      any_lacks = true;
    }
    if (huge && !any_lacks && wanted.bytes > everywhere) {
      refuse(wanted.bytes, "host " + inventory.hostname, everywhere);
    }
  }
};

}  // namespace

VmFindings vm_findings(const Placement& placement, const Scenario& scenario,
                       const vmctl::Inventory& inventory, bool emulated) {
  VmCheck check{scenario, inventory, emulated};
  check.check_all(placement);
  return std::move(check.found);
}

}  // namespace virtrain::harness
