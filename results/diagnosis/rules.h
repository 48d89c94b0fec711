#pragma once

#include <string>
#include <vector>

#include "results/diagnosis/diagnosis.h"

namespace virtrain::results {

inline constexpr const char* compare_again =
    "run the same nccl-tests command again with NCCL_DEBUG=INFO, and diagnose with --baseline";

/// "published: …"; empty where nobody whom we know has measured it.
inline std::string published_words(const char* published) {
  return published == nullptr ? "" : std::string("published: ") + published;
}

/// A finding that explains symptoms: ids of findings of logs.
struct CauseFinding {
  DiagnosisFinding is;
  std::vector<std::string> explains;
};

/// Finds what NCCL's lines give evidence of. `baseline`: of the same job; null: there is none.
std::vector<DiagnosisFinding> nccl_findings(const NcclLog& side, const NcclLog* baseline);
std::vector<DiagnosisRule> nccl_rule_names();

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

/// Adds causes to the symptoms that logs and figures show. A cause that explains some of them becomes one
/// finding with them, and what it may cost is what they cost. The strongest evidence comes first, in equal
/// grades the order that they had, symptoms before causes.
std::vector<DiagnosisFinding> joined(std::vector<DiagnosisFinding> symptoms,
                                     const std::vector<CauseFinding>& causes);

}  // namespace virtrain::results
