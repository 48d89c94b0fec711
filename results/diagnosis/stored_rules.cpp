#include "results/diagnosis/stored_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/text/text.h"
#include "results/comparison/verdict.h"

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

}  // namespace

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

}  // namespace virtrain::results
