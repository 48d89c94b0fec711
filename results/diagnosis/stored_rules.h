#pragma once

#include <vector>

#include "results/diagnosis/diagnosis.h"

namespace virtrain::results {

/// Finds what trials of a database give evidence of: the causes of `compare --explain`, by their words,
/// emulation, and why trials do not count.
std::vector<DiagnosisFinding> stored_findings(const DiagnosedSide& side);
/// Losses of throughput beyond noise, by case.
std::vector<MeasuredLoss> stored_losses(const DiagnosedSide& side);
std::vector<DiagnosisRule> stored_rule_names();

}  // namespace virtrain::results
