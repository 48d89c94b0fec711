#include "harness/experiment/judge.h"

#include <algorithm>
#include <string_view>

#include "common/model/check.h"
#include "common/system/log.h"
#include "harness/scenario/decode/decode.h"
#include "results/comparison/verdict.h"

namespace virtrain::harness {

using results::CaseComparison;
using results::Verdict;

int judge_verdicts(const std::vector<CaseComparison>& all) {
  const auto comparisons = results::judged(all);
  const auto any = [&](auto... verdicts) {
    return std::ranges::any_of(comparisons,
                               [&](const auto* one) { return ((one->verdict == verdicts) || ...); });
  };
  const auto is_worse = [](const auto* one) { return results::worse_after_holm(*one); };
  if (std::ranges::any_of(comparisons, is_worse)) { return exit_worse; }
  if (comparisons.empty() || any(Verdict::worse, Verdict::inconclusive, Verdict::not_comparable)) {
    return exit_no_verdict;
  }
  return 0;
}

int judge_probes(const results::ProbeStudy& study) {
  const auto is_worse = [&](const auto& one) {
    return one.verdict == Verdict::worse && one.p_worse_holm.value_or(0) < study.settings.alpha;
  };
  const auto is_undecided = [](const auto& one) {
    return one.verdict == Verdict::worse || one.verdict == Verdict::inconclusive ||
           one.verdict == Verdict::not_comparable;
  };
  if (std::ranges::any_of(study.figures, is_worse)) { return exit_worse; }
  return std::ranges::any_of(study.figures, is_undecided) ? exit_no_verdict : 0;
}

int judge_security(const std::vector<results::LeakSearch>& searches) {
  const auto any = [&](LeakResult result) {
    const std::string_view word = to_string(result);
    return std::ranges::any_of(searches, [&](const auto& one) { return one.result == word; });
  };
  return any(LeakResult::leak) ? exit_worse : any(LeakResult::inconclusive) ? exit_no_verdict : 0;
}

Error after_begin(const Error& error) {
  const auto code = error.code() == ErrorCode::busy ? ErrorCode::io : error.code();
  return {error.operation(), code, error.message()};
}

std::optional<results::Settings> expected_settings(const Scenario& scenario) {
  if (scenario.vm_vs_bare_metal || !scenario.isolation) { return scenario.vm_vs_bare_metal; }
  results::Settings settings;
  settings.margin = scenario.isolation->margin;
  return settings;
}

std::optional<results::Settings> expected_settings(const results::Store& store,
                                                   const results::CompareRequest& request) {
  const bool theirs = (request.baseline.empty() || request.baseline == arm_bare_metal) &&
                      (request.candidate.empty() || request.candidate == arm_vm);
  if (!theirs) { return std::nullopt; }
  const auto experiments = store.select(request.selection);
  for (auto id = experiments.rbegin(); id != experiments.rend(); ++id) {
    const auto experiment = store.experiment(*id);
    if (!experiment || experiment->scenario_text.empty()) { continue; }
    try {
      const auto scenario = decode_scenario(experiment->scenario_text, "scenario of " + *id, true);
      if (const auto expected = expected_settings(scenario)) { return expected; }
    } catch (const Error& error) {
      log::warning("the stored scenario cannot be read any more: --margin and --alpha decide",
                   {{"experiment", *id}, {"reason", error.message()}});
    }
  }
  return std::nullopt;
}

int judge(const ExperimentOutcome& outcome, const std::vector<CaseComparison>& comparisons,
          bool expectations) {
  if (outcome.stop_signal != 0) { return 128 + outcome.stop_signal; }
  if (outcome.aborted_by) { return exit_status(*outcome.aborted_by); }
  if (outcome.failed > 0) { return exit_status(ErrorCode::trial_failed); }
  return expectations ? judge_verdicts(comparisons) : 0;
}

}  // namespace virtrain::harness
