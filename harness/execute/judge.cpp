#include "harness/execute/judge.h"

#include <algorithm>

namespace virtrain::harness {

using results::CaseComparison;
using results::Verdict;

int judge_verdicts(const std::vector<CaseComparison>& comparisons) {
  const auto any = [&](auto... verdicts) {
    return std::any_of(comparisons.begin(), comparisons.end(),
                       [&](const CaseComparison& c) { return ((c.verdict == verdicts) || ...); });
  };
  if (any(Verdict::worse)) return 1;
  if (comparisons.empty() || any(Verdict::inconclusive, Verdict::not_comparable)) return 5;
  return 0;
}

int judge(const ExperimentOutcome& outcome, const std::vector<CaseComparison>& comparisons,
          bool expectations) {
  if (outcome.stop_signal != 0) return 128 + outcome.stop_signal;
  if (outcome.aborted_by) return exit_status(*outcome.aborted_by);
  if (outcome.failed > 0) return exit_status(ErrorCode::trial_failed);
  return expectations ? judge_verdicts(comparisons) : 0;
}

}  // namespace virtrain::harness
