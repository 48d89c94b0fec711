#include "results/diagnosis/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "common/contains.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/causes/probe_key.h"
#include "results/comparison/verdict.h"
#include "results/diagnosis/rules.h"

namespace virtrain::results {
namespace {

constexpr DiagnosisRule emulated_rule{"TRI-1", "VMs of trials were emulated"};
constexpr DiagnosisRule invalid_rule{"TRI-2", "trials do not count"};

constexpr const char* explain_again = "virtrain compare --explain after another run of the same scenario";

DiagnosisFinding emulated_finding(const CaseComparison& one) {
  return {emulated_rule.id,
          emulated_rule.title,
          fmt::format("{}: QEMU emulated the processor of {}", one.case_name, one.candidate),
          "",
          "run on a host with KVM: virtrain doctor KVM-1 and KVM-2 say what is missing",
          "virtrain show names kvm as the virtualization of the trials",
          EvidenceGrade::broken};
}

DiagnosisFinding invalid_finding(const std::string& reason, std::int64_t trials) {
  return {invalid_rule.id,
          invalid_rule.title,
          fmt::format("{} of them: {}", trials, reason),
          "",
          "virtrain doctor --explain ID explains the check that the reason names",
          "virtrain show lists the trials as valid",
          EvidenceGrade::seen};
}

/// A cause of the explainer's. More than the gap a bound cannot explain.
DiagnosisFinding cause_finding(const CaseComparison& one, const Finding& cause) {
  DiagnosisFinding found{cause.cause,
                         cause.name + ": " + cause.meaning,
                         fmt::format("{}: {} in {}, {} in {}", one.case_name, cause.candidate, one.candidate,
                                     cause.baseline, one.baseline),
                         "",
                         cause.next,
                         explain_again,
                         cause.at_most ? EvidenceGrade::may_cost : EvidenceGrade::seen};
  if (cause.cost) {
    found.loss = cause.at_most ? std::min(*cause.cost, one.explanation->gap) : *cause.cost;
    found.cost = fmt::format("{} {:.1f} % of the throughput of {}", cause.at_most ? "up to" : "about",
                             *found.loss * 100, one.case_name);
  } else {
    found.grade = EvidenceGrade::differs;
  }
  return found;
}

bool is_a_loss(const CaseComparison& one) {
  return one.test && one.test->ratio < 1 && one.reason != "emulated" && is_beyond_noise(one);
}

/// Mean throughput of an arm; 0: unknown.
double throughput_of(const CaseComparison& one, const std::string& arm) {
  const auto found = std::ranges::find(one.arms, arm, &ArmSummary::arm);
  return found == one.arms.end() ? 0 : found->throughput.value_or(0);
}

/// Finds what trials of a database give evidence of: the causes of `compare --explain`, by their words,
/// emulation, and why trials do not count.
std::vector<DiagnosisFinding> stored_findings(const DiagnosedSide& side) {
  std::vector<DiagnosisFinding> found, causes;
  for (const auto& one : side.cases) {
    if (one.reason == "emulated") { found.push_back(emulated_finding(one)); }
    if (!is_a_loss(one) || !one.explanation) { continue; }
    for (const auto& cause : one.explanation->findings) {
      if (cause.cost.value_or(0) >= 0) { causes.push_back(cause_finding(one, cause)); }
    }
  }
  for (const auto& [reason, trials] : side.invalid_trials) {
    found.push_back(invalid_finding(reason, trials));
  }
  std::ranges::stable_sort(causes, std::ranges::greater(),
                           [](const auto& one) { return one.loss.value_or(0); });
  // A cause that several cases show is told once, by the case that it costs most.
  for (auto& one : causes) {
    if (std::ranges::none_of(found, [&](const auto& other) { return other.id == one.id; })) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

/// Losses of throughput beyond noise, by case.
std::vector<MeasuredLoss> stored_losses(const DiagnosedSide& side) {
  std::vector<MeasuredLoss> losses;
  for (const auto& one : side.cases) {
    if (!is_a_loss(one)) { continue; }
    losses.push_back({fmt::format("{} in {}", one.case_name, one.candidate), one.throughput_unit,
                      throughput_of(one, one.baseline), throughput_of(one, one.candidate)});
  }
  return losses;
}

std::vector<DiagnosisRule> stored_rule_names() {
  return {emulated_rule, invalid_rule};
}

/// A check of `virtrain doctor` as a cause.
struct HostRule {
  const char* id;
  EvidenceGrade grade;
  const char* published;  ///< a loss that somebody has seen; null: nobody whom we know
  std::array<const char*, 4> explains = {};
  const char* needs = nullptr;  ///< where the check could not be made
};

using enum EvidenceGrade;
// The order of equal evidence: what stops work, then what costs most.
constexpr std::array host_rules{
    HostRule{"RST-2", broken,
             "the card answers again when the host was switched off and on (kata-containers issue 11708)"},
    HostRule{"FAB-1", broken, "CUDA starts in no guest (nccl-tests issue 260)", {"NCL-10", "NCL-7"}},
    HostRule{"FAB-2", broken, "CUDA starts in no guest (nccl-tests issue 260)", {"NCL-10", "NCL-7"}},
    HostRule{"BAR-1", broken, "the driver finds no memory region, BAR1 is 0M (kubevirt issue 11093)"},
    HostRule{"KVM-1", broken, nullptr},
    HostRule{"KVM-2", broken, nullptr},
    HostRule{"ECC-1", broken, nullptr},
    HostRule{"MEM-2", broken, "QEMU runs out of memory (kubevirt issue 8472)"},
    HostRule{"MEM-3", broken, "the VM does not start (kubevirt issue 10379)"},
    HostRule{"CLK-1", seen, nullptr, {}, "nvidia-smi on the machine that has the GPUs"},
    HostRule{"LNK-1", seen, nullptr, {"NCL-5", "NCL-12"}},
    HostRule{"LNK-2", seen, nullptr, {"NCL-5", "NCL-12"}},
    HostRule{"AER-1", seen, nullptr, {"NCL-12"}},
    HostRule{"ACS-2",
             may_cost,
             "it halves or hangs on bare metal (nccl issue 2079)",
             {"NCL-1", "NCL-12"},
             "the configuration space of bridges: root, or a host that root has recorded"},
    HostRule{"RDM-1", may_cost, "half of the bandwidth (nccl-tests issue 29)", {"NCL-2", "NCL-3", "NCL-12"}},
    HostRule{"ACS-3",
             may_cost,
             "56 % of bare metal between VMs of two hosts (nccl-tests issue 380)",
             {"NCL-2", "NCL-3", "NCL-12"}},
    HostRule{"RDM-2",
             may_cost,
             "56 % of bare metal between VMs of two hosts (nccl-tests issue 380)",
             {"NCL-2", "NCL-12"}},
    HostRule{"RDM-3", may_cost, nullptr, {"NCL-4", "NCL-12"}},
    HostRule{"TOP-1", may_cost, "0.2 GB/s links in NCCL's eyes (nccl-tests issue 256)", {"NCL-13", "NCL-12"}},
    HostRule{"NUM-0", may_cost, nullptr, {"NCL-2", "NCL-12"}},
    HostRule{"KVM-3", may_cost, nullptr},
    HostRule{"CPU-1", may_cost, nullptr},
    HostRule{"MEM-4", may_cost, nullptr},
    HostRule{"MEM-1", may_cost, nullptr},
    HostRule{"VER-3", may_cost, "minutes until a guest has probed its GPUs (edk2 pull request 10856)"},
    HostRule{"IOM-4", differs, nullptr, {"NCL-11"}}};

/// About lending devices to VMs and keeping tenants apart: nothing of it makes work slow.
constexpr std::array<std::string_view, 29> not_causes{
    "ACS-1", "CH-1",  "CLR-1", "CVM-1", "DRV-1", "DRV-2",  "DRV-3", "ECC-2", "FW-1",  "GPU-0",
    "IOM-1", "IOM-2", "IOM-3", "IOM-5", "KVM-4", "LEAK-1", "LOC-1", "NET-2", "QRT-0", "RST-1",
    "SEC-1", "USE-1", "USE-2", "USE-3", "VER-1", "VER-2",  "VG-2",  "VG-3",  "VG-5"};

/// Grades a check that no row names by its severity.
std::optional<EvidenceGrade> severity_grade(Severity severity) {
  switch (severity) {
    case Severity::blocks:
      return broken;
    case Severity::invalidates:
      return seen;
    case Severity::warns:
      return may_cost;
    case Severity::notes:
      break;
  }
  return std::nullopt;
}

const HostRule* host_rule_of(const std::string& id) {
  const auto* const found = std::ranges::find(host_rules, id, &HostRule::id);
  return found == host_rules.end() ? nullptr : found;
}

std::string check_title(const std::string& found) {
  return found.substr(0, std::min(found.find(": "), found.find("; ")));
}

CauseFinding check_finding(const virtrain::Finding& check, EvidenceGrade grade, const HostRule* rule) {
  CauseFinding one{{check.id, check_title(check.found), "virtrain doctor: " + check.found,
                    rule == nullptr ? "" : published_words(rule->published), check.fix,
                    fmt::format("virtrain doctor --explain {} finds it well", check.id), grade},
                   {}};
  if (rule == nullptr) { return one; }
  for (const char* symptom : rule->explains) {
    if (symptom != nullptr) { one.explains.emplace_back(symptom); }
  }
  one.is.loss = check.loss;
  if (one.is.loss) {
    one.is.cost = fmt::format("at most {:.0f} % of copies to and from the device", *one.is.loss * 100);
  }
  return one;
}

/// Failed checks of the host that make work slow or stop it, and what they explain. Those that are about
/// lending devices are doctor's alone.
std::vector<CauseFinding> host_findings(const DiagnosedHost& host) {
  std::vector<CauseFinding> ruled, others;
  for (const auto& rule : host_rules) {
    for (const auto& check : host.checks) {
      if (check.id == rule.id && check.status == CheckStatus::failed) {
        ruled.push_back(check_finding(check, rule.grade, &rule));
      }
    }
  }
  for (const auto& check : host.checks) {
    const auto grade = severity_grade(check.severity);
    if (check.status == CheckStatus::failed && grade && host_rule_of(check.id) == nullptr &&
        std::ranges::find(not_causes, check.id) == not_causes.end()) {
      others.push_back(check_finding(check, *grade, nullptr));
    }
  }
  ruled.insert(ruled.end(), others.begin(), others.end());
  return ruled;
}

/// Names what checks could not tell here, and what would tell it.
std::vector<std::string> host_unknowns(const DiagnosedHost& host) {
  std::vector<std::string> found;
  for (const auto& check : host.checks) {
    const auto* const rule = host_rule_of(check.id);
    if (rule != nullptr && rule->needs != nullptr && check.status == CheckStatus::skipped && host.gpus > 1) {
      found.push_back(fmt::format("{} of the host: needs {}", check.id, rule->needs));
    }
  }
  return found;
}

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

std::vector<DiagnosisFinding> joined(std::vector<DiagnosisFinding> symptoms,
                                     const std::vector<CauseFinding>& causes) {
  std::vector<DiagnosisFinding> all;
  std::set<std::string> explained;
  for (const auto& cause : causes) {
    auto one = cause.is;
    for (const auto& symptom : symptoms) {
      if (!contains(cause.explains, symptom.id)) { continue; }
      one.evidence += "; " + symptom.id + ": " + symptom.evidence;
      if (symptom.loss && !one.loss) { std::tie(one.loss, one.cost) = std::pair(symptom.loss, symptom.cost); }
      if (one.cost.empty()) { one.cost = symptom.cost; }
      one.grade = EvidenceGrade::explained;
      explained.insert(symptom.id);
    }
    all.push_back(std::move(one));
  }
  std::erase_if(symptoms, [&](const auto& one) { return explained.contains(one.id); });
  all.insert(all.begin(), std::make_move_iterator(symptoms.begin()), std::make_move_iterator(symptoms.end()));
  std::ranges::stable_sort(all, {}, &DiagnosisFinding::grade);
  return all;
}

}  // namespace virtrain::results
