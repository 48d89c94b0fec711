#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/store/records.h"

namespace virtrain::harness {

/// virtrain-probe's command line for these probes, of one size in every arm, in nodes of so much memory: half
/// a node's for the three arrays of triad and at most 1 GiB each, and few seconds of a GEMM even where it is
/// emulated.
std::vector<std::string> probe_command(const std::string& program, const std::vector<std::string>& probes,
                                       std::uint64_t memory_bytes);

/// The figures among the records that virtrain-probe has written, measured in this arm and node. Throws
/// Error(trial_failed) where they are not such records.
std::vector<results::Probe> parse_probe_records(const std::string& lines, const std::string& arm,
                                                const std::string& node);

}  // namespace virtrain::harness
