#pragma once

#include <vector>

#include "results/diagnosis/diagnosis.h"

namespace virtrain::results {

inline constexpr const char* compare_again =
    "run the same nccl-tests command again with NCCL_DEBUG=INFO, and diagnose with --baseline";

/// "published: …"; empty where nobody whom we know has measured it.
inline std::string published_words(const char* published) {
  return published == nullptr ? "" : std::string("published: ") + published;
}

/// Finds what NCCL's lines give evidence of. `baseline`: of the same job; null: there is none.
std::vector<DiagnosisFinding> nccl_findings(const NcclLog& side, const NcclLog* baseline);
std::vector<DiagnosisRule> nccl_rule_names();

}  // namespace virtrain::results
