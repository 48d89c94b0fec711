#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml_reader.h"

namespace virtrain::harness {

/// `pairs`: a number, or at most how many and what ends them early.
void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// Of a scenario, in all its arms.
inline constexpr std::size_t most_trials = 50'000;
/// Refuses more trials than that, for a plan has an entry for each trial and each of its nodes, and nobody
/// waits for years. Without `large_sweeps` a sweep may have fewer.
void check_extent(MapReader& in, const Scenario& scenario, bool large_sweeps);

/// `expect`: what must hold at the end. The scenario has its arms already.
void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// `probes`: those that one process can measure; what concerns GPUs needs ranks that have some.
std::vector<std::string> decode_probes(MapReader& in, const std::vector<Case>& cases,
                                       Diagnostics& diagnostics);

/// How long things may take, and the pause between them.
void decode_times(MapReader& in, Scenario& scenario);

}  // namespace virtrain::harness
