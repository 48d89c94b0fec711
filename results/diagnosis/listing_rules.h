#pragma once

#include <string>
#include <vector>

#include "results/diagnosis/causes.h"

namespace virtrain::results {

/// Finds what listings of one side give evidence of: topologies, PCI functions, domains. `baseline`: null
/// where there is none. `symptoms` are what logs and figures show: of some listings nothing is wrong without
/// them.
std::vector<CauseFinding> listing_findings(const DiagnosedSide& side, const DiagnosedSide* baseline,
                                           const std::vector<DiagnosisFinding>& symptoms);
/// Names what listings leave open, and what would tell it.
std::vector<std::string> listing_unknowns(const DiagnosedSide& side);
/// Names inputs that are not of one machine.
std::vector<std::string> contradictions_of(const DiagnosedSide& side);
std::vector<DiagnosisRule> listing_rule_names();

}  // namespace virtrain::results
