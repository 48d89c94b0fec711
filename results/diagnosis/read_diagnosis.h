#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "results/diagnosis/diagnosis.h"

namespace virtrain::results {

/// Files of one side, or folders of such: logs under NCCL_DEBUG=INFO, and whatever `import` reads figures of
/// micro-benchmarks from; both may be in one file. "-" is `standard_input`. Files that are neither are named
/// in `skipped`. Throws Error(bad_input) where none can be used.
DiagnosedSide read_side(const std::vector<std::string>& files, std::istream& standard_input,
                        std::vector<std::string>& skipped);

}  // namespace virtrain::results
