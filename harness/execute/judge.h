#pragma once

#include <vector>

#include "harness/execute/experiment.h"
#include "results/comparison/compare.h"

namespace virtrain::harness {

/// Exit status of `run` and of a gated `compare` (design: "Exit codes, highest precedence first").
int judge(const ExperimentOutcome& outcome, const std::vector<results::CaseComparison>& comparisons,
          bool expectations);
/// The part that expectations decide: 1 where a case is worse, else 5 where one has no verdict, else 0.
int judge_verdicts(const std::vector<results::CaseComparison>& comparisons);

}  // namespace virtrain::harness
