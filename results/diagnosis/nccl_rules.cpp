#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "common/text/text.h"
#include "results/diagnosis/rules.h"

namespace virtrain::results {
namespace {

/// A rule's sight; none: nothing is wrong, or nothing tells.
using SeenOfNccl = std::optional<std::string>;

std::string listed_names(const std::set<std::string>& all) {
  return join({all.begin(), all.end()}, ", ");
}

std::string ways_text(const std::map<std::string, std::int64_t>& ways) {
  std::vector<std::string> words;
  words.reserve(ways.size());
  for (const auto& [way, count] : ways) { words.push_back(fmt::format("{} ({})", way, count)); }
  return join(words, ", ");
}

bool any_way(const std::map<std::string, std::int64_t>& ways, std::string_view begin) {
  return std::ranges::any_of(ways, [&](const auto& one) { return one.first.starts_with(begin); });
}

/// Whether adapters copy through the host's memory on some connections between nodes.
bool lacks_gdr(const NcclLog& log) {
  return std::ranges::any_of(log.between_nodes, [](const auto& one) {
    return one.first.starts_with("NET/IB") && one.first.find("GDRDMA") == std::string::npos;
  });
}

std::string value_of(const NcclLog& log, const char* variable) {
  const auto found = log.variables.find(variable);
  return found == log.variables.end() ? "" : found->second;
}

/// " (baseline: …)", where there is one.
std::string against(const std::string& words) {
  return words.empty() ? "" : fmt::format(" (baseline: {})", words);
}

SeenOfNccl peer_to_peer_is_off(const NcclLog& side, const NcclLog* baseline) {
  const bool has_others = any_way(side.within_nodes, "SHM") || any_way(side.within_nodes, "NET");
  if (!has_others || (baseline != nullptr && !any_way(baseline->within_nodes, "P2P"))) { return {}; }
  if (!value_of(side, "NCCL_P2P_DISABLE").empty() || !value_of(side, "NCCL_P2P_LEVEL").empty()) { return {}; }
  return "ranks of one node go by " + ways_text(side.within_nodes) +
         against(baseline == nullptr ? "" : ways_text(baseline->within_nodes));
}

SeenOfNccl gdr_is_off(const NcclLog& side, const NcclLog* baseline) {
  if (!lacks_gdr(side) || (baseline != nullptr && lacks_gdr(*baseline))) { return {}; }
  if (side.without_gdr.empty() && baseline == nullptr) { return {}; }
  return "nodes reach each other by " + ways_text(side.between_nodes) +
         (side.without_gdr.empty() ? "" : "; NCCL says: Disabled " + listed_names(side.without_gdr)) +
         against(baseline == nullptr ? "" : ways_text(baseline->between_nodes));
}

/// It saw one, and could not open it.
bool has_closed_adapters(const NcclLog& log) {
  return std::ranges::any_of(log.warnings, [](const auto& warning) {
    return warning.find("ibv_open_device failed") != std::string::npos ||
           warning.find("Unable to open device") != std::string::npos;
  });
}

SeenOfNccl links_look_slow(const NcclLog& side, const NcclLog* /*baseline*/) {
  if (side.slowest_link.value_or(1) >= 1) { return {}; }
  return fmt::format("NCCL's graph has a PCIe link of {} GB/s", *side.slowest_link);
}

SeenOfNccl sockets_are_used(const NcclLog& side, const NcclLog* baseline) {
  const bool has_sockets = any_way(side.between_nodes, "NET/Socket") || side.network == "Socket";
  const bool should_have_others = baseline != nullptr
                                      ? !baseline->network.empty() && baseline->network != "Socket"
                                      : !side.adapters.empty() || has_closed_adapters(side);
  if (!has_sockets || !should_have_others) { return {}; }
  return "NCCL uses network " + (side.network.empty() ? "Socket" : side.network) +
         (side.has_adapter_line && side.adapters.empty() ? ", for it found no adapter" : "") +
         against(baseline == nullptr ? "" : baseline->network);
}

SeenOfNccl adapters_are_missing(const NcclLog& side, const NcclLog* baseline) {
  if (baseline == nullptr || side.adapters.size() >= baseline->adapters.size() || !side.has_adapter_line) {
    return {};
  }
  return fmt::format("{} of {} adapters: {}{}", side.adapters.size(), baseline->adapters.size(),
                     listed_names(side.adapters), against(listed_names(baseline->adapters)));
}

SeenOfNccl channels_are_fewer(const NcclLog& side, const NcclLog* baseline) {
  if (baseline == nullptr || !side.channels || !baseline->channels || *side.channels >= *baseline->channels) {
    return {};
  }
  if (!value_of(side, "NCCL_MAX_NCHANNELS").empty() || !value_of(side, "NCCL_MAX_NRINGS").empty()) {
    return {};
  }
  return fmt::format("{} channels (baseline: {})", *side.channels, *baseline->channels);
}

SeenOfNccl relaxed_ordering_is_off(const NcclLog& side, const NcclLog* baseline) {
  if (baseline == nullptr || side.relaxed_ordering || !baseline->relaxed_ordering || !side.has_adapter_line) {
    return {};
  }
  return "NET/IB names its adapters without [RO], the baseline's with it";
}

SeenOfNccl nvls_is_off(const NcclLog& side, const NcclLog* baseline) {
  if (baseline == nullptr || side.nvls_channels != 0 || baseline->nvls_channels.value_or(0) == 0) {
    return {};
  }
  return fmt::format("no NVLS channels (baseline: {})", *baseline->nvls_channels);
}

SeenOfNccl versions_differ(const NcclLog& side, const NcclLog* baseline) {
  if (baseline == nullptr || side.version.empty() || baseline->version.empty() ||
      side.version == baseline->version) {
    return {};
  }
  return fmt::format("NCCL {} (baseline: {})", side.version, baseline->version);
}

SeenOfNccl variables_forbid(const NcclLog& side, const NcclLog* baseline) {
  // They switch something off, or bound it; a variable that both sides set explains no difference.
  static constexpr std::array limiting{
      "NCCL_P2P_DISABLE",   "NCCL_P2P_LEVEL",     "NCCL_SHM_DISABLE",
      "NCCL_IB_DISABLE",    "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ",
      "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS",    "NCCL_MAX_CTAS",
      "NCCL_ALGO",          "NCCL_PROTO",         "NCCL_NVLS_ENABLE",
      "NCCL_BUFFSIZE",      "NCCL_IB_HCA",        "NCCL_NET",
      "NCCL_CUMEM_ENABLE",  "NCCL_DMABUF_ENABLE", "NCCL_IB_PCI_RELAXED_ORDERING"};
  std::vector<std::string> found;
  for (const char* name : limiting) {
    const auto value = value_of(side, name);
    const bool is_shared = baseline != nullptr && value_of(*baseline, name) == value;
    if (!value.empty() && !is_shared) { found.push_back(fmt::format("{}={}", name, value)); }
  }
  return found.empty() ? SeenOfNccl() : join(found, ", ");
}

SeenOfNccl fabric_is_not_up(const NcclLog& side, const NcclLog* /*baseline*/) {
  for (const auto& warning : side.warnings) {
    if (warning.find("802") != std::string::npos ||
        warning.find("system not yet initialized") != std::string::npos) {
      return "NCCL warns: " + warning;
    }
  }
  return {};
}

SeenOfNccl other_warnings(const NcclLog& side, const NcclLog* baseline) {
  std::vector<std::string> found;
  for (const auto& warning : side.warnings) {
    const bool is_shared = baseline != nullptr && baseline->warnings.contains(warning);
    if (!is_shared && warning.find("802") == std::string::npos) { found.push_back(warning); }
  }
  return found.empty() ? SeenOfNccl() : "NCCL warns: " + join(found, "; ");
}

struct NcclRule {
  DiagnosisRule is;
  EvidenceGrade grade;
  SeenOfNccl (*look)(const NcclLog& side, const NcclLog* baseline);
  const char* published;  ///< a loss that somebody has measured; null: nobody whom we know
  const char* fix;
  const char* check;
};

// The strongest evidence first: what cannot work, what takes another way, what takes fewer, what only
// differs.
constexpr std::array nccl_rules{
    NcclRule{{"NCL-10", "the NVSwitch fabric is not up"},
             EvidenceGrade::broken,
             fabric_is_not_up,
             "CUDA starts in no guest (nccl-tests issue 260)",
             "start Fabric Manager where the switches are: on the host with a partition for these GPUs "
             "(FABRIC_MODE=1), or in the guest that has them all; virtrain doctor FAB-1 and FAB-2",
             "nvidia-smi -q names fabric state Completed, status Success, in the guest"},
    NcclRule{
        {"NCL-3", "nodes talk over sockets where adapters could carry RDMA"},
        EvidenceGrade::seen,
        sockets_are_used,
        "4 in place of 6 GB/s on 100 Gb/s (nccl issue 465)",
        "give the guest its adapter or a virtual function of it, load its driver (ibv_devinfo lists it), "
        "and look at /dev/infiniband in containers",
        "the log says: Using network IB"},
    NcclRule{
        {"NCL-2", "GPUDirect RDMA is off"},
        EvidenceGrade::seen,
        gdr_is_off,
        "half of the bandwidth (nccl-tests issue 29)",
        "load nvidia_peermem or use a kernel with DMA-BUF; where NCCL names a distance, the guest does not "
        "see GPU and adapter below one switch: virtrain topology --for-guest writes NCCL_TOPO_FILE; on the "
        "host ATS in the adapter and ACS with DirectTrans (docs/gpu-host.md)",
        "connections between nodes end in /GDRDMA"},
    NcclRule{
        {"NCL-1", "GPUs of one node do not reach each other directly"},
        EvidenceGrade::seen,
        peer_to_peer_is_off,
        nullptr,
        "in a VM: devices.clique auto (QEMU x-nv-gpudirect-clique) and NCCL_TOPO_FILE; on bare metal ACS "
        "redirect above the GPUs sends them through the root complex: virtrain doctor ACS-1, IOM-1",
        "connections within a node go by P2P"},
    NcclRule{
        {"NCL-13", "NCCL takes a PCIe link for a slow one"},
        EvidenceGrade::seen,
        links_look_slow,
        "0.2 GB/s behind emulated ports (nccl-tests issue 256)",
        "virtrain topology --for-guest writes NCCL_TOPO_FILE with the host's links; a file that is in use "
        "already may have link_speed 2.5 GT/s or link_width 1 in one of its ports",
        "NCCL_DEBUG_SUBSYS=GRAPH shows PCI[12.0] or more"},
    NcclRule{{"NCL-9", "the environment limits NCCL"},
             EvidenceGrade::seen,
             variables_forbid,
             nullptr,
             "unset what is not meant, or set it on both sides",
             compare_again},
    NcclRule{{"NCL-4", "adapters are missing"},
             EvidenceGrade::seen,
             adapters_are_missing,
             nullptr,
             "assign all adapters that bare metal has (devices.nics.per_node), and see NCCL_IB_HCA",
             "NET/IB : Using names all of them"},
    NcclRule{{"NCL-5", "NCCL builds fewer channels"},
             EvidenceGrade::seen,
             channels_are_fewer,
             "180 in place of 320 GB/s in VMs (nccl-tests issue 380)",
             "NCCL sees slower or flatter links in the guest, as behind emulated ports: virtrain topology "
             "--for-guest writes NCCL_TOPO_FILE with those of the host",
             "as many channels as the baseline"},
    NcclRule{
        {"NCL-6", "adapters write in strict order"},
        EvidenceGrade::may_cost,
        relaxed_ordering_is_off,
        nullptr,
        "switch on relaxed ordering: PCI_WR_ORDERING=1 by mlxconfig on the host, for virtual functions too; "
        "NCCL_IB_PCI_RELAXED_ORDERING is 2 by default",
        "NET/IB : Using ends in [RO]"},
    NcclRule{
        {"NCL-7", "NVLink SHARP is not used"},
        EvidenceGrade::may_cost,
        nvls_is_off,
        nullptr,
        "the guest needs all GPUs of its partition, the fabric's multicast, and IMEX or CUMEM as on bare "
        "metal",
        "as many nvls channels as the baseline"},
    NcclRule{{"NCL-11", "NCCL warns"},
             EvidenceGrade::differs,
             other_warnings,
             nullptr,
             "do what the warning says, or look it up in NCCL's issues",
             "the warning is gone"},
    NcclRule{{"NCL-8", "versions of NCCL differ"},
             EvidenceGrade::differs,
             versions_differ,
             nullptr,
             "run one version on both sides before anything else is compared",
             compare_again}};

}  // namespace

std::vector<DiagnosisFinding> nccl_findings(const NcclLog& side, const NcclLog* baseline) {
  std::vector<DiagnosisFinding> found;
  for (const auto& rule : nccl_rules) {
    if (auto evidence = rule.look(side, baseline)) {
      found.push_back({rule.is.id, rule.is.title, std::move(*evidence), published_words(rule.published),
                       rule.fix, rule.check, rule.grade});
    }
  }
  return found;
}

std::vector<DiagnosisRule> nccl_rule_names() {
  std::vector<DiagnosisRule> all;
  std::ranges::transform(nccl_rules, std::back_inserter(all), &NcclRule::is);
  return all;
}

}  // namespace virtrain::results
