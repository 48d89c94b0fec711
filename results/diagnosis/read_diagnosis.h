#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "results/diagnosis/diagnosis.h"

namespace virtrain::results {

/// Files of one side, or folders of such: logs under NCCL_DEBUG=INFO, and whatever `import` reads figures of
/// micro-benchmarks from; both may be in one file. "-" is `standard_input`. Files that are neither are named
/// in `skipped`. Throws Error(bad_input) where none can be used.
DiagnosedSide read_side(const std::vector<std::string>& files, std::istream& standard_input,
                        std::vector<std::string>& skipped);

/// Adds the latest experiment of a database: its comparisons with their causes, reasons of invalid trials,
/// and probes of bare metal to the baseline, of other arms to the side. Throws Error(not_found) where it has
/// none.
void read_database(const std::filesystem::path& file, DiagnosedSide& side,
                   std::optional<DiagnosedSide>& baseline);

}  // namespace virtrain::results
