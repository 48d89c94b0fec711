#include "results/diagnosis/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/text/text.h"
#include "results/comparison/causes/probe_key.h"

namespace virtrain::results {
namespace {

/// A rule's sight; none: nothing is wrong, or nothing tells.
using SeenOfNccl = std::optional<std::string>;

std::string listed_names(const std::set<std::string>& all) {
  return join({all.begin(), all.end()}, ", ");
}

std::string ways_text(const std::map<std::string, std::int64_t>& ways) {
  std::vector<std::string> words;
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

SeenOfNccl sockets_are_used(const NcclLog& side, const NcclLog* baseline) {
  const bool has_sockets = any_way(side.between_nodes, "NET/Socket") || side.network == "Socket";
  const bool should_have_others = baseline != nullptr
                                      ? !baseline->network.empty() && baseline->network != "Socket"
                                      : !side.adapters.empty();
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
  SeenOfNccl (*look)(const NcclLog& side, const NcclLog* baseline);
  const char* published;  ///< a loss that somebody has measured; null: nobody whom we know
  const char* fix;
  const char* check;
};

constexpr const char* compare_again =
    "run the same nccl-tests command again with NCCL_DEBUG=INFO, and diagnose with --baseline";

// The strongest evidence first: what cannot work, what takes another way, what takes fewer, what only
// differs.
constexpr std::array nccl_rules{
    NcclRule{{"NCL-10", "the NVSwitch fabric is not up"},
             fabric_is_not_up,
             "CUDA starts in no guest (nccl-tests issue 260)",
             "start Fabric Manager where the switches are: on the host with a partition for these GPUs "
             "(FABRIC_MODE=1), or in the guest that has them all; virtrain doctor FAB-1 and FAB-2",
             "nvidia-smi -q names fabric state Completed, status Success, in the guest"},
    NcclRule{
        {"NCL-3", "nodes talk over sockets where adapters could carry RDMA"},
        sockets_are_used,
        "4 in place of 6 GB/s on 100 Gb/s (nccl issue 465)",
        "give the guest its adapter or a virtual function of it, load its driver (ibv_devinfo lists it), "
        "and look at /dev/infiniband in containers",
        "the log says: Using network IB"},
    NcclRule{
        {"NCL-2", "GPUDirect RDMA is off"},
        gdr_is_off,
        "half of the bandwidth (nccl-tests issue 29)",
        "load nvidia_peermem or use a kernel with DMA-BUF; where NCCL names a distance, the guest does not "
        "see GPU and adapter below one switch: virtrain topology --for-guest writes NCCL_TOPO_FILE; on the "
        "host ATS in the adapter and ACS with DirectTrans (docs/gpu-host.md)",
        "connections between nodes end in /GDRDMA"},
    NcclRule{
        {"NCL-1", "GPUs of one node do not reach each other directly"},
        peer_to_peer_is_off,
        nullptr,
        "in a VM: devices.clique auto (QEMU x-nv-gpudirect-clique) and NCCL_TOPO_FILE; on bare metal ACS "
        "redirect above the GPUs sends them through the root complex: virtrain doctor ACS-1, IOM-1",
        "connections within a node go by P2P"},
    NcclRule{{"NCL-9", "the environment limits NCCL"},
             variables_forbid,
             nullptr,
             "unset what is not meant, or set it on both sides",
             compare_again},
    NcclRule{{"NCL-4", "adapters are missing"},
             adapters_are_missing,
             nullptr,
             "assign all adapters that bare metal has (devices.nics.per_node), and see NCCL_IB_HCA",
             "NET/IB : Using names all of them"},
    NcclRule{{"NCL-5", "NCCL builds fewer channels"},
             channels_are_fewer,
             "180 in place of 320 GB/s in VMs (nccl-tests issue 380)",
             "NCCL sees slower or flatter links in the guest, as behind emulated ports: virtrain topology "
             "--for-guest writes NCCL_TOPO_FILE with those of the host",
             "as many channels as the baseline"},
    NcclRule{
        {"NCL-6", "adapters write in strict order"},
        relaxed_ordering_is_off,
        nullptr,
        "switch on relaxed ordering: PCI_WR_ORDERING=1 by mlxconfig on the host, for virtual functions too; "
        "NCCL_IB_PCI_RELAXED_ORDERING is 2 by default",
        "NET/IB : Using ends in [RO]"},
    NcclRule{
        {"NCL-7", "NVLink SHARP is not used"},
        nvls_is_off,
        nullptr,
        "the guest needs all GPUs of its partition, the fabric's multicast, and IMEX or CUMEM as on bare "
        "metal",
        "as many nvls channels as the baseline"},
    NcclRule{{"NCL-11", "NCCL warns"},
             other_warnings,
             nullptr,
             "do what the warning says, or look it up in NCCL's issues",
             "the warning is gone"},
    NcclRule{{"NCL-8", "versions of NCCL differ"},
             versions_differ,
             nullptr,
             "run one version on both sides before anything else is compared",
             compare_again}};

constexpr DiagnosisRule silent_loss{
    "NCL-12", "a collective is slower than in the baseline, and no line of NCCL tells why"};

DiagnosisFinding silent_finding(const MeasuredLoss& worst) {
  return {
      silent_loss.id,
      silent_loss.title,
      fmt::format("{} has {:.0f} % of the baseline's rate", worst.name, (1 - worst.loss()) * 100),
      "",
      fmt::format("run both sides with NCCL_DEBUG=INFO; over several nodes look at {}, and at the number and "
                  "MTU of adapters (docs/gpu-host.md); within a node at peer-to-peer (virtrain doctor ACS-1, "
                  "ACS-2)",
                  slow_collective_causes),
      compare_again};
}

std::vector<MeasuredLoss> losses_of(const DiagnosedSide& side, const std::optional<DiagnosedSide>& baseline) {
  if (!baseline) { return {}; }
  std::vector<const Probe*> ours, theirs;
  for (const auto& one : side.probes) { ours.push_back(&one); }
  for (const auto& one : baseline->probes) { theirs.push_back(&one); }
  const auto shared = shared_probes(theirs, ours);
  std::vector<MeasuredLoss> losses;
  for (const auto& [name, value] : shared.baseline) {
    constexpr std::string_view prefix = "probe.";
    losses.push_back({name.starts_with(prefix) ? name.substr(prefix.size()) : name, shared.units.at(name),
                      value, shared.candidate.at(name)});
  }
  std::ranges::stable_sort(losses, std::ranges::greater(), &MeasuredLoss::loss);
  return losses;
}

/// A cause takes this at most: the largest loss that was measured; without one, what others have published.
std::string cost_words(const NcclRule& rule, const std::vector<MeasuredLoss>& losses) {
  if (!losses.empty() && losses.front().loss() > 0) {
    return fmt::format("at most {:.0f} % of {} here", losses.front().loss() * 100, losses.front().name);
  }
  return rule.published == nullptr ? "" : fmt::format("published: {}", rule.published);
}

/// Whether ways and channels of the two jobs can be held against each other.
bool are_alike(const NcclLog& one, const NcclLog& other) {
  return one.empty() || other.empty() || (one.ranks == other.ranks && one.hosts.size() == other.hosts.size());
}

std::string job_words(const NcclLog& log) {
  return fmt::format("{} ranks on {} hosts", log.ranks, log.hosts.size());
}

std::vector<std::string> unknowns(const DiagnosedSide& side, const std::optional<DiagnosedSide>& baseline,
                                  bool has_losses) {
  std::vector<std::string> found;
  if (side.nccl.empty()) {
    found.emplace_back("ways, adapters and channels of NCCL: run with NCCL_DEBUG=INFO");
  } else if (!side.nccl.has_adapter_line && side.nccl.hosts.size() > 1) {
    found.emplace_back("adapters of NCCL: run with NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH");
  }
  if (!baseline) {
    found.emplace_back("the size of a loss: give the same test on bare metal with --baseline");
  } else {
    if (baseline->nccl.empty()) {
      found.emplace_back("the baseline's ways: run it with NCCL_DEBUG=INFO, too");
    }
    if (!are_alike(side.nccl, baseline->nccl)) {
      found.push_back(
          fmt::format("differences in ways and channels: {} here, {} in the baseline; run the same job",
                      job_words(side.nccl), job_words(baseline->nccl)));
    }
    if (!has_losses) {
      found.emplace_back(
          "the size of a loss: the two sides share no figure (nccl-tests' table of one collective, of the "
          "same sizes)");
    }
  }
  return found;
}

}  // namespace

double MeasuredLoss::loss() const {
  const double share = unit == "s" ? baseline / side : side / baseline;
  return std::isfinite(share) ? 1 - share : 0;
}

Diagnosis diagnose(const DiagnosedSide& side, const std::optional<DiagnosedSide>& baseline) {
  Diagnosis found;
  found.losses = losses_of(side, baseline);
  const bool has_other = baseline && !baseline->nccl.empty() && are_alike(side.nccl, baseline->nccl);
  const auto* const other = has_other ? &baseline->nccl : nullptr;
  if (!side.nccl.empty()) {
    for (const auto& rule : nccl_rules) {
      if (const auto evidence = rule.look(side.nccl, other)) {
        found.findings.push_back(
            {rule.is.id, rule.is.title, *evidence, cost_words(rule, found.losses), rule.fix, rule.check});
      }
    }
  }
  if (side.nccl.empty() && !found.losses.empty() && 1 - found.losses.front().loss() < slow_collective_share) {
    found.findings.push_back(silent_finding(found.losses.front()));
  }
  found.unknown = unknowns(side, baseline, !found.losses.empty());
  return found;
}

std::vector<DiagnosisRule> diagnosis_rules() {
  std::vector<DiagnosisRule> all;
  std::ranges::transform(nccl_rules, std::back_inserter(all), &NcclRule::is);
  all.push_back(silent_loss);
  return all;
}

}  // namespace virtrain::results
