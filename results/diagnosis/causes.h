#pragma once

#include <string>
#include <vector>

#include "results/diagnosis/diagnosis.h"

namespace virtrain::results {

/// A finding that explains symptoms: ids of findings of logs.
struct CauseFinding {
  DiagnosisFinding is;
  std::vector<std::string> explains;
};

/// Adds causes to the symptoms that logs and figures show. A cause that explains some of them becomes one
/// finding with them, and what it may cost is what they cost. The strongest evidence comes first, in equal
/// grades the order that they had, symptoms before causes.
std::vector<DiagnosisFinding> joined(std::vector<DiagnosisFinding> symptoms,
                                     const std::vector<CauseFinding>& causes);

}  // namespace virtrain::results
