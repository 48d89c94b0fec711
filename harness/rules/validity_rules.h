#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/model/check.h"
#include "harness/rules/validity.h"

namespace virtrain::harness {

/// One row of what is judged of a trial when it has ended, by what really happened: what the doctor cannot
/// see because it takes a guest, or a run. Severities are the doctor's (blocks, invalidates: the trial is
/// invalid; warns: it is noted only), and so are ids of what both look at; where the evidence is absent (a
/// trial without GPUs) a rule has nothing to say.
struct ValidityRule : CheckRow {
  std::vector<std::string> (*look)(const TrialEvidence& trial);  ///< what is wrong, a sentence each
};

/// All of them.
std::span<const ValidityRule> validity_rules();

}  // namespace virtrain::harness
