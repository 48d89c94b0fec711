#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "results/store/records.h"

namespace virtrain::results {

// Outputs of tools that are read as they come from a job, by the readers of `import`.

/// Whether the line may be a row of nccl-tests' table: it begins with a size and a count.
bool is_nccl_row(std::string_view line);

/// The rows of nccl-tests' whole output, each side of one a probe. `program` may name the collective, where
/// the output does not. Throws Error(bad_input) with the line.
std::vector<Probe> read_nccl_output(const std::string& text, const std::string& program);

}  // namespace virtrain::results
