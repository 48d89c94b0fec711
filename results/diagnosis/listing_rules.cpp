
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/diagnosis/rules.h"

namespace virtrain::results {
namespace {

constexpr std::size_t most_named = 8;  // offenders that one finding names

/// All that a rule looks at.
struct Listed {
  const DiagnosedSide& side;
  const DiagnosedSide* baseline;  ///< null: there is none
  const std::vector<DiagnosisFinding>& symptoms;

  bool shows(const char* symptom) const {
    return std::ranges::any_of(symptoms, [&](const auto& one) { return one.id == symptom; });
  }
};

struct SeenInListing {
  std::vector<std::string> offenders = {};  ///< in words; none: nothing is wrong, or nothing tells
  std::optional<double> loss = {};          ///< of the worst

  void add(std::string words, std::optional<double> share = {}) {
    offenders.push_back(std::move(words));
    if (share) { loss = std::max(loss.value_or(0), *share); }
  }
};

// --- nvidia-smi topo -m

/// The nearest adapter of a GPU; empty: the matrix has none.
std::string nearest_adapter(const TopoMatrix& topology, const std::string& gpu) {
  std::string nearest;
  for (const auto& adapter : topology.adapters) {
    const auto distance = distance_of(topology.way(gpu, adapter));
    if (!distance) { continue; }
    if (nearest.empty() || *distance < distance_of(topology.way(gpu, nearest)).value_or(9)) {
      nearest = adapter;
    }
  }
  return nearest;
}

SeenInListing adapters_are_far(const Listed& listed) {
  SeenInListing seen;
  for (const auto& topology : listed.side.topologies) {
    for (const auto& gpu : topology.gpus) {
      const auto adapter = nearest_adapter(topology, gpu);
      if (!adapter.empty() && topology.way(gpu, adapter) == "SYS") {
        seen.add(fmt::format("{} reaches its nearest adapter, {}, by SYS", gpu, adapter));
      }
    }
  }
  return seen;
}

/// Calls with the names and ways of each pair that both matrices have.
template <typename Take>
void each_shared_way(const Listed& listed, Take&& take) {
  if (listed.baseline == nullptr || listed.baseline->topologies.empty()) { return; }
  for (const auto& topology : listed.side.topologies) {
    for (const auto& [pair, way] : topology.ways) {
      const auto other = listed.baseline->topologies.front().way(pair.first, pair.second);
      if (!other.empty() && pair.first < pair.second) {
        take(pair.first + " and " + pair.second, way, other);
      }
    }
  }
}

SeenInListing nvlinks_are_missing(const Listed& listed) {
  SeenInListing seen;
  each_shared_way(listed, [&](const std::string& pair, const std::string& way, const std::string& other) {
    const int links = nvlinks_of(way), could_be = nvlinks_of(other);
    if (links < could_be) {
      seen.add(fmt::format("{} by {} (baseline: {})", pair, way, other),
               1 - static_cast<double>(links) / could_be);
    }
  });
  return seen;
}

SeenInListing tree_is_flatter(const Listed& listed) {
  SeenInListing seen;
  each_shared_way(listed, [&](const std::string& pair, const std::string& way, const std::string& other) {
    if (nvlinks_of(other) == 0 && distance_of(way) > distance_of(other)) {
      seen.add(fmt::format("{} by {} (baseline: {})", pair, way, other));
    }
  });
  return seen;
}

SeenInListing nodes_are_hidden(const Listed& listed) {
  const auto nodes_of = [](const TopoMatrix& topology) {
    std::set<std::string> nodes;
    for (const auto& [gpu, node] : topology.numa) { nodes.insert(node); }
    return nodes;
  };
  SeenInListing seen;
  if (listed.baseline == nullptr || listed.baseline->topologies.empty()) { return seen; }
  const auto baseline = nodes_of(listed.baseline->topologies.front());
  for (const auto& topology : listed.side.topologies) {
    const auto nodes = nodes_of(topology);
    const bool is_shown = topology.gpus.size() == listed.baseline->topologies.front().gpus.size();
    if (is_shown && !nodes.empty() && nodes.size() < baseline.size()) {
      seen.add(fmt::format("GPUs are on NUMA node {} (baseline: {})", join({nodes.begin(), nodes.end()}, " "),
                           join({baseline.begin(), baseline.end()}, " ")));
    }
  }
  return seen;
}

// --- lspci -vvv

/// Adds what `describe` says of each function; empty: nothing.
template <typename Describe>
void each_function(const Listed& listed, SeenInListing& seen, Describe&& describe) {
  for (const auto& listing : listed.side.listings) {
    for (const auto& function : listing.functions) {
      if (std::string words = describe(listing, function); !words.empty()) {
        seen.add(fmt::format("{} {}", function.address, words));
      }
    }
  }
}

bool is_of_interest(const ListedFunction& function) {
  return function.is_gpu() || function.is_adapter();
}

SeenInListing devices_are_lost(const Listed& listed) {
  SeenInListing seen;
  each_function(listed, seen, [](const PciListing&, const ListedFunction& one) -> std::string {
    return one.is_dead ? "answers with ones only: " + one.name : "";
  });
  return seen;
}

SeenInListing regions_are_unmapped(const Listed& listed) {
  SeenInListing seen;
  each_function(listed, seen, [](const PciListing&, const ListedFunction& one) -> std::string {
    return one.is_gpu() && !one.unmapped_regions.empty()
               ? fmt::format("has no place for region {}", one.unmapped_regions.front())
               : "";
  });
  return seen;
}

SeenInListing nouveau_has_gpus(const Listed& listed) {
  SeenInListing seen;
  each_function(listed, seen, [](const PciListing&, const ListedFunction& one) -> std::string {
    return one.is_gpu() && one.driver == "nouveau" ? "is on nouveau" : "";
  });
  return seen;
}

/// The speed of a GPU's link says nothing: an idle one slows it down.
SeenInListing links_are_narrow(const Listed& listed) {
  SeenInListing seen;
  for (const auto& listing : listed.side.listings) {
    for (const auto& one : listing.functions) {
      if (!is_of_interest(one) || !one.link || !one.link_possible) { continue; }
      double share = static_cast<double>(one.link->width) / one.link_possible->width;
      if (one.is_adapter()) { share *= one.link->gigatransfers / one.link_possible->gigatransfers; }
      if (share >= 1) { continue; }
      seen.add(
          fmt::format("{} runs {} lanes at {} GT/s, of {} at {} GT/s", one.address, one.link->width,
                      one.link->gigatransfers, one.link_possible->width, one.link_possible->gigatransfers),
          1 - share);
    }
  }
  return seen;
}

/// A bridge above it sends what goes to its peers through the root complex.
const ListedFunction* redirecting_bridge(const PciListing& listing, const ListedFunction& function) {
  for (const auto* bridge : listing.above(function)) {
    if (bridge->redirects.value_or(false)) { return bridge; }
  }
  return nullptr;
}

SeenInListing adapters_translate_nothing(const Listed& listed) {
  SeenInListing seen;
  each_function(listed, seen, [](const PciListing& listing, const ListedFunction& one) -> std::string {
    const auto* const bridge = redirecting_bridge(listing, one);
    const bool has_gpus = std::ranges::any_of(listing.functions, &ListedFunction::is_gpu);
    if (!one.is_adapter() || !has_gpus || bridge == nullptr || !one.ats) { return ""; }
    const bool is_direct = bridge->direct_translated.value_or(false);
    if (*one.ats && is_direct) { return ""; }
    return fmt::format("below {} (ReqRedir+ DirectTrans{}), ATS {}", bridge->address, is_direct ? "+" : "-",
                       *one.ats ? "on" : "off");
  });
  return seen;
}

/// Whether some GPUs have no NVLink to each other; nothing: nobody says.
std::optional<bool> lack_nvlink(const DiagnosedSide& side) {
  if (side.topologies.empty()) { return std::nullopt; }
  const auto& topology = side.topologies.front();
  return std::ranges::any_of(topology.ways, [&](const auto& way) {
    const auto& [from, to] = way.first;
    return from.starts_with("GPU") && to.starts_with("GPU") && nvlinks_of(way.second) == 0;
  });
}

std::size_t redirected_gpus(const PciListing& listing) {
  return static_cast<std::size_t>(std::ranges::count_if(listing.functions, [&](const auto& one) {
    return one.is_gpu() && redirecting_bridge(listing, one) != nullptr;
  }));
}

/// Where tenants share a host ACS is as it should be, so that something else has to say that it costs here.
SeenInListing peers_are_redirected(const Listed& listed) {
  SeenInListing seen;
  const bool costs = listed.shows("NCL-1") || lack_nvlink(listed.side).value_or(false);
  for (const auto& listing : listed.side.listings) {
    if (const auto count = redirected_gpus(listing); count > 1 && costs) {
      seen.add(fmt::format("ACS above {} GPUs has ReqRedir+", count));
    }
  }
  return seen;
}

/// Virtual functions show no such bit of their own.
SeenInListing writes_are_ordered(const Listed& listed) {
  SeenInListing seen;
  each_function(listed, seen, [](const PciListing&, const ListedFunction& one) -> std::string {
    return one.is_adapter() && !one.is_virtual_function() && !one.relaxed_ordering.value_or(true)
               ? "has RlxdOrd-"
               : "";
  });
  return seen;
}

SeenInListing packets_are_small(const Listed& listed) {
  constexpr double header_bytes = 26;  // of a packet to 64-bit addresses, with its framing
  const auto efficiency = [](int payload) { return payload / (payload + header_bytes); };
  SeenInListing seen;
  for (const auto& listing : listed.side.listings) {
    for (const auto& one : listing.functions) {
      if (!is_of_interest(one) || one.is_virtual_function() || one.payload == 0) { continue; }
      int possible = one.payload_possible;
      const auto bridges = listing.above(one);
      for (const auto* bridge : bridges) { possible = std::min(possible, bridge->payload_possible); }
      if (bridges.empty() || one.payload >= possible) { continue; }
      seen.add(fmt::format("{} has MaxPayload {} of {} bytes", one.address, one.payload, possible),
               1 - efficiency(one.payload) / efficiency(possible));
    }
  }
  return seen;
}

SeenInListing emulated_ports_look_slow(const Listed& listed) {
  SeenInListing seen;
  each_function(listed, seen, [](const PciListing& listing, const ListedFunction& one) -> std::string {
    if (!is_of_interest(one)) { return ""; }
    for (const auto* bridge : listing.above(one)) {
      const auto& link = bridge->link;
      if (bridge->is_emulated() && link && link->width * link->gigatransfers < 8) {
        return fmt::format("below {}, whose link looks like {} GT/s x{}", bridge->address,
                           link->gigatransfers, link->width);
      }
    }
    return "";
  });
  return seen;
}

// --- virsh dumpxml

/// Adds what `describe` says of each domain that has devices of its host; empty: nothing.
template <typename Describe>
SeenInListing each_domain(const Listed& listed, Describe&& describe) {
  SeenInListing seen;
  for (const auto& domain : listed.side.domains) {
    if (domain.devices.empty()) { continue; }
    if (std::string words = describe(domain); !words.empty()) {
      seen.add(fmt::format("{}: {}", domain.name.empty() ? "the domain" : domain.name, words));
    }
  }
  return seen;
}

/// The devices of the domain that the host has; all of them, or it is of another host.
bool is_of_host(const GuestDomain& domain, const DiagnosedHost& host) {
  return std::ranges::all_of(domain.devices, [&](const auto& one) { return host.functions.contains(one); });
}

/// NUMA nodes of the domain's devices, where the host is known.
std::set<int> nodes_of_devices(const GuestDomain& domain, const DiagnosedSide& side) {
  std::set<int> nodes;
  if (!side.host || !is_of_host(domain, *side.host)) { return nodes; }
  for (const auto& device : domain.devices) { nodes.insert(side.host->functions.at(device).numa_node); }
  nodes.erase(-1);
  return nodes;
}

SeenInListing domain_is_emulated(const Listed& listed) {
  SeenInListing seen;
  for (const auto& domain : listed.side.domains) {
    if (domain.type == "qemu") { seen.add(fmt::format("{} has type='qemu'", domain.name)); }
  }
  return seen;
}

SeenInListing regions_do_not_fit(const Listed& listed) {
  return each_domain(listed, [&](const GuestDomain& domain) -> std::string {
    if (domain.has_host_address_bits || !listed.side.host || !is_of_host(domain, *listed.side.host)) {
      return "";
    }
    std::uint64_t bytes = 0;
    const auto& host = *listed.side.host;
    for (const auto& one : domain.devices) { bytes += host.functions.at(one).region_bytes; }
    return bytes <= host.room_of_named_cpu
               ? ""
               : fmt::format("its devices need {} for memory regions, and its CPU leaves {}",
                             format_size(bytes), format_size(host.room_of_named_cpu));
  });
}

SeenInListing cores_are_far(const Listed& listed) {
  return each_domain(listed, [&](const GuestDomain& domain) -> std::string {
    const auto nodes = nodes_of_devices(domain, listed.side);
    std::set<int> pinned;
    for (const int cpu : domain.cpus) {
      const auto& node_of = listed.side.host->node_of_cpu;
      if (const auto node = node_of.find(cpu); node != node_of.end()) { pinned.insert(node->second); }
    }
    const bool are_apart = !nodes.empty() && !pinned.empty() &&
                           std::ranges::none_of(nodes, [&](int node) { return pinned.contains(node); });
    return are_apart ? fmt::format("its cores are on NUMA node {}, its devices on {}", fmt::join(pinned, " "),
                                   fmt::join(nodes, " "))
                     : "";
  });
}

SeenInListing domain_is_flat(const Listed& listed) {
  return each_domain(listed, [&](const GuestDomain& domain) -> std::string {
    const auto nodes = nodes_of_devices(domain, listed.side);
    return nodes.size() > 1 && domain.expanders == 0
               ? fmt::format("its devices are on NUMA nodes {} of the host and on one bus in the guest",
                             fmt::join(nodes, " "))
               : "";
  });
}

SeenInListing cpu_is_a_model(const Listed& listed) {
  return each_domain(listed, [](const GuestDomain& domain) -> std::string {
    if (domain.cpu_mode == "custom") { return "its CPU is the model " + domain.cpu_model; }
    return domain.cpu_mode.empty() ? "its CPU is QEMU's default model" : "";
  });
}

SeenInListing vcpus_are_not_pinned(const Listed& listed) {
  return each_domain(listed, [](const GuestDomain& domain) -> std::string {
    return domain.pinned_vcpus < domain.vcpus
               ? fmt::format("{} of {} vCPUs are pinned", domain.pinned_vcpus, domain.vcpus)
               : "";
  });
}

SeenInListing memory_is_in_small_pages(const Listed& listed) {
  return each_domain(listed, [](const GuestDomain& domain) -> std::string {
    return domain.has_hugepages ? "" : "its memory is in pages of 4 KiB";
  });
}

SeenInListing guest_has_an_iommu(const Listed& listed) {
  return each_domain(listed, [](const GuestDomain& domain) -> std::string {
    return domain.has_iommu ? "it has an emulated IOMMU" : "";
  });
}

SeenInListing machine_has_no_pcie(const Listed& listed) {
  return each_domain(listed, [](const GuestDomain& domain) -> std::string {
    return domain.machine.starts_with("pc-i440fx") || domain.machine == "pc"
               ? "its machine is " + domain.machine
               : "";
  });
}

SeenInListing nics_are_emulated(const Listed& listed) {
  SeenInListing seen;
  for (const auto& domain : listed.side.domains) {
    for (const auto& model : domain.emulated_nics) {
      seen.add(fmt::format("{} has a NIC {}", domain.name, model));
    }
  }
  return seen;
}

// --- the table

struct ListingRule {
  DiagnosisRule is;
  EvidenceGrade grade;
  SeenInListing (*look)(const Listed& listed);
  const char* published;  ///< a loss that somebody has measured; null: nobody whom we know
  const char* fix;
  const char* check;
  std::array<const char*, 4> explains = {};
  const char* loss_is_of = nullptr;  ///< of whose rate a loss is a share
};

constexpr const char* copies = "copies to and from the device";
constexpr const char* look_again = "the same command in the same place no longer shows it";
constexpr const char* give_topology =
    "virtrain topology --for-guest writes NCCL_TOPO_FILE with the host's tree; better: a pcie-expander-bus "
    "for "
    "each NUMA node of the host, with its devices below it";

using enum EvidenceGrade;
// The order of equal evidence: what stops work, then what costs most.
constexpr std::array listing_rules{
    ListingRule{
        {"PCI-1", "a device has fallen off the bus"},
        broken,
        devices_are_lost,
        "it returned when the host had been switched off and on (kata-containers issue 11708)",
        "switch the host off and on; set d3cold_allowed to 0 and vfio_pci.disable_idle_d3=1 before it is "
        "assigned again",
        "lspci shows its revision, and not ff"},
    ListingRule{{"PCI-2", "a GPU's memory region has no address"},
                broken,
                regions_are_unmapped,
                "the driver does not start (kubevirt issue 11093)",
                "on a host: Above 4G Decoding in the firmware; in a guest <maxphysaddr mode='passthrough'/> "
                "(virtrain doctor BAR-1)",
                look_again},
    ListingRule{{"PCI-3", "nouveau has a GPU"},
                broken,
                nouveau_has_gpus,
                nullptr,
                "blacklist nouveau, install NVIDIA's driver, and build the initramfs again",
                look_again},
    ListingRule{{"DOM-1", "the VM's processor is emulated"},
                broken,
                domain_is_emulated,
                nullptr,
                "<domain type='kvm'>, on a host where virtrain doctor finds KVM-1 and KVM-2 well",
                "virsh dumpxml says type='kvm'"},
    ListingRule{{"DOM-2", "memory regions of the devices do not fit into the guest"},
                broken,
                regions_do_not_fit,
                "the driver finds BAR1 is 0M (kubevirt issue 11093)",
                "<cpu mode='host-passthrough'>, or <maxphysaddr mode='passthrough'/> in <cpu>",
                "nvidia-smi lists the GPUs in the guest"},
    ListingRule{{"PCI-4", "a PCIe link runs below what the device can"},
                seen,
                links_are_narrow,
                nullptr,
                "reseat the card; look at bifurcation, riser and slot (the slot may have fewer lanes)",
                "LnkSta shows the width of LnkCap under load",
                {"NCL-5", "NCL-12"},
                copies},
    ListingRule{{"SMI-1", "NVLinks are missing"},
                seen,
                nvlinks_are_missing,
                nullptr,
                "assign GPUs that are joined to one VM; on NVSwitch boards with an active partition of them "
                "(virtrain doctor FAB-2)",
                "nvidia-smi topo -m shows the baseline's NV#",
                {"NCL-1", "NCL-5", "NCL-7", "NCL-12"},
                "copies between the GPUs"},
    ListingRule{
        {"PCI-5", "ACS sends RDMA to GPUs through the root complex"},
        seen,
        adapters_translate_nothing,
        "180 in place of 320 GB/s (nccl-tests issue 380)",
        "ATS_ENABLED=1 by mlxconfig and a power cycle; DirectTrans in the ACS of the switch's ports above "
        "(docs/gpu-host.md); where all of the host is one tenant's, ReqRedir may go",
        "ATSCtl shows Enable+, ACSCtl DirectTrans+",
        {"NCL-2", "NCL-12"}},
    ListingRule{{"PCI-6", "emulated ports above devices look like slow links"},
                seen,
                emulated_ports_look_slow,
                "NCCL takes them for links of 0.2 GB/s (nccl-tests issue 256)",
                give_topology,
                "NCCL builds the channels that bare metal has",
                {"NCL-5", "NCL-12", "NCL-13"}},
    ListingRule{{"DOM-3", "cores and devices are on different NUMA nodes"},
                seen,
                cores_are_far,
                nullptr,
                "pin vCPUs to cores of the devices' node, with numatune for the memory",
                "virtrain doctor NUM-1 passes in a trial",
                {"NCL-12"}},
    ListingRule{{"SMI-2", "the guest's tree is flatter than bare metal's"},
                seen,
                tree_is_flatter,
                "GPUDirect RDMA stays off (nccl issue 1464)",
                give_topology,
                "the ways of nvidia-smi topo -m, or with the file NCCL's channels, are those of the baseline",
                {"NCL-1", "NCL-2", "NCL-5", "NCL-12"}},
    ListingRule{{"DOM-4", "the guest does not show which devices are near each other"},
                seen,
                domain_is_flat,
                "GPUDirect RDMA stays off (nccl issue 1464)",
                give_topology,
                "nvidia-smi topo -m shows several NUMA nodes in the guest",
                {"NCL-2", "NCL-5", "NCL-12"}},
    ListingRule{
        {"SMI-3", "GPUs are far from every adapter"},
        may_cost,
        adapters_are_far,
        "data goes through both sockets (nccl-tests issue 29)",
        "give each VM adapters of its GPUs' NUMA node (devices.nics of a scenario); in a guest see SMI-2",
        "nvidia-smi topo -m shows PIX, PXB or NODE for one adapter of each GPU",
        {"NCL-2", "NCL-12"}},
    ListingRule{
        {"SMI-4", "the guest hides the GPUs' NUMA nodes"},
        may_cost,
        nodes_are_hidden,
        nullptr,
        "guest NUMA cells with pcie-expander-bus controllers on them, as guest.pinning numa makes them",
        "nvidia-smi topo -m shows as many NUMA nodes as the host",
        {"NCL-12"}},
    ListingRule{
        {"PCI-7", "ACS sends GPUs' traffic through the root complex"},
        may_cost,
        peers_are_redirected,
        "it halves or hangs on bare metal (nccl issue 2079)",
        "leave ACS on where tenants share the host; NCCL_P2P_DISABLE=1 on bare metal, devices.clique in VMs; "
        "with one tenant setpci may clear it",
        "connections within a node go by P2P, or nothing hangs",
        {"NCL-1", "NCL-12"}},
    ListingRule{{"PCI-8", "an adapter orders its writes strictly"},
                may_cost,
                writes_are_ordered,
                "it matters with ACS and ATS, as in VMs (nccl issue 1205)",
                "PCI_WR_ORDERING=1 by mlxconfig on the host",
                "DevCtl shows RlxdOrd+",
                {"NCL-6", "NCL-12"}},
    ListingRule{{"DOM-5", "the guest's CPU is a named model"},
                may_cost,
                cpu_is_a_model,
                nullptr,
                "<cpu mode='host-passthrough' migratable='off'/>",
                "lscpu in the guest names the host's processor"},
    ListingRule{{"DOM-6", "vCPUs are not pinned"},
                may_cost,
                vcpus_are_not_pinned,
                nullptr,
                "a <vcpupin> for each vCPU, to cores that nobody else uses",
                "virsh vcpupin shows one core for each"},
    ListingRule{{"DOM-7", "the guest's memory is not in huge pages"},
                may_cost,
                memory_is_in_small_pages,
                nullptr,
                "<memoryBacking><hugepages/></memoryBacking>, with pages that are reserved at the start",
                "virtrain doctor MEM-1 passes"},
    ListingRule{{"DOM-8", "the guest has an emulated IOMMU"},
                may_cost,
                guest_has_an_iommu,
                nullptr,
                "take <iommu> off, or boot the guest with iommu=pt",
                look_again},
    ListingRule{
        {"DOM-9", "the machine type has no PCI Express"},
        may_cost,
        machine_has_no_pcie,
        nullptr,
        "machine='q35': devices show no link and no extended capabilities on a bus of conventional PCI",
        "lspci -vv shows LnkSta for devices in the guest"},
    ListingRule{{"DOM-10", "a NIC is emulated"},
                may_cost,
                nics_are_emulated,
                nullptr,
                "<model type='virtio'/>",
                "ethtool -i names virtio_net in the guest"},
    ListingRule{{"PCI-9", "PCIe packets are smaller than both ends allow"},
                may_cost,
                packets_are_small,
                nullptr,
                "set the maximum payload in the firmware, or pci=pcie_bus_perf",
                "DevCtl shows the larger MaxPayload",
                {},
                copies}};

CauseFinding listing_finding(const ListingRule& rule, SeenInListing seen) {
  auto named = seen.offenders;
  if (named.size() > most_named) {
    const auto rest = named.size() - most_named;
    named.resize(most_named);
    named.push_back(fmt::format("{} more", rest));
  }
  CauseFinding one{{rule.is.id, rule.is.title, join(named, "; "), published_words(rule.published), rule.fix,
                    rule.check, rule.grade, seen.loss},
                   {}};
  if (seen.loss && rule.loss_is_of != nullptr) {
    one.is.cost = fmt::format("at most {:.0f} % of {}", *seen.loss * 100, rule.loss_is_of);
  }
  for (const char* symptom : rule.explains) {
    if (symptom != nullptr) { one.explains.emplace_back(symptom); }
  }
  return one;
}

}  // namespace

std::vector<CauseFinding> listing_findings(const DiagnosedSide& side, const DiagnosedSide* baseline,
                                           const std::vector<DiagnosisFinding>& symptoms) {
  std::vector<CauseFinding> found;
  const Listed listed{side, baseline, symptoms};
  for (const auto& rule : listing_rules) {
    if (auto seen = rule.look(listed); !seen.offenders.empty()) {
      found.push_back(listing_finding(rule, std::move(seen)));
    }
  }
  return found;
}

std::vector<std::string> listing_unknowns(const DiagnosedSide& side) {
  std::vector<std::string> found;
  for (const auto& listing : side.listings) {
    if (!listing.is_whole) {
      found.push_back(fmt::format("links, ACS and ATS: {}",
                                  listing.is_denied ? "the listing was made without root; sudo lspci -vvv"
                                                    : "needs lspci -vvv, by root"));
    }
    if (redirected_gpus(listing) > 1 && !lack_nvlink(side)) {
      found.emplace_back(
          "whether ACS above the GPUs costs anything: needs nvidia-smi topo -m (NVLink or not)");
    }
  }
  const bool has_devices =
      std::ranges::any_of(side.domains, [](const auto& one) { return !one.devices.empty(); });
  if (has_devices && !side.host) {
    found.emplace_back("whether cores and tree of the domain fit its devices: needs --host or --inventory");
  }
  return found;
}

std::vector<std::string> contradictions_of(const DiagnosedSide& side) {
  std::vector<std::string> found;
  if (!side.host) { return found; }
  for (const auto& domain : side.domains) {
    std::vector<std::string> strangers;
    std::ranges::copy_if(domain.devices, std::back_inserter(strangers),
                         [&](const auto& one) { return !side.host->functions.contains(one); });
    if (strangers.size() > most_named) { strangers.resize(most_named); }
    if (!strangers.empty()) {
      found.push_back(
          fmt::format("devices of domain {} are not in the tree of {}: {}; the XML is of another host",
                      domain.name, side.host->name, join(strangers, " ")));
    }
  }
  for (const auto& listing : side.listings) {
    const bool is_elsewhere = std::ranges::any_of(listing.functions, [&](const auto& one) {
      return one.is_gpu() && !side.host->functions.contains(one.address);
    });
    if (!listing.is_of_guest() && is_elsewhere) {
      found.push_back(
          fmt::format("GPUs of the PCI listing are not in the tree of {}: it is of another host, or of "
                      "a guest",
                      side.host->name));
    }
  }
  return found;
}

std::vector<DiagnosisRule> listing_rule_names() {
  std::vector<DiagnosisRule> all;
  std::ranges::transform(listing_rules, std::back_inserter(all), &ListingRule::is);
  return all;
}

}  // namespace virtrain::results
