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
#include "results/diagnosis/causes.h"
#include "results/diagnosis/host_rules.h"
#include "results/diagnosis/listing_rules.h"
#include "results/diagnosis/nccl_rules.h"
#include "results/diagnosis/stored_rules.h"

namespace virtrain::results {
namespace {

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

/// Findings of collectives take this at most: the largest loss that was measured, and not what others have
/// published.
void add_losses(std::vector<DiagnosisFinding>& findings, const std::vector<MeasuredLoss>& losses) {
  if (losses.empty() || losses.front().loss() <= 0) { return; }
  for (auto& one : findings) {
    one.loss = losses.front().loss();
    one.cost = fmt::format("at most {:.0f} % of {} here", *one.loss * 100, losses.front().name);
  }
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
  if (side.host) { found = host_unknowns(*side.host); }
  for (auto& one : listing_unknowns(side)) { found.push_back(std::move(one)); }
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

/// The shipped scenario whose work is nearest to what is slow.
const char* nearest_scenario(const DiagnosedSide& side) {
  const bool is_over_hosts =
      side.nccl.hosts.size() > 1 ||
      std::ranges::any_of(side.probes, [](const auto& one) { return one.nodes.value_or(1) > 1; });
  if (is_over_hosts) { return "two-hosts-allreduce"; }
  const bool has_gpus = !side.nccl.empty() || !side.topologies.empty() || (side.host && side.host->gpus > 0);
  return has_gpus ? "one-vm-two-gpus" : "quickstart";
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
  if (!side.nccl.empty()) {
    found.findings = nccl_findings(side.nccl, has_other ? &baseline->nccl : nullptr);
  } else if (!found.losses.empty() && 1 - found.losses.front().loss() < slow_collective_share) {
    found.findings.push_back(silent_finding(found.losses.front()));
  }
  add_losses(found.findings, found.losses);
  for (auto& one : stored_findings(side)) { found.findings.push_back(std::move(one)); }
  for (auto& one : stored_losses(side)) { found.losses.push_back(std::move(one)); }
  auto causes = listing_findings(side, baseline ? &*baseline : nullptr, found.findings);
  if (side.host) {
    auto more = host_findings(*side.host);
    causes.insert(causes.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  found.findings = joined(std::move(found.findings), causes);
  found.unknown = unknowns(side, baseline, !found.losses.empty());
  found.contradictions = contradictions_of(side);
  if (!found.findings.empty()) { found.scenario = nearest_scenario(side); }
  return found;
}

std::vector<DiagnosisRule> diagnosis_rules() {
  auto all = nccl_rule_names();
  for (const auto& more : {listing_rule_names(), stored_rule_names()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  all.push_back(silent_loss);
  return all;
}

}  // namespace virtrain::results
