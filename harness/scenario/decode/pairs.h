#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/scenario/decode/sweep.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// `pairs`: a number, or at most how many and what ends them early.
void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// Limit of a scenario, in all its arms.
inline constexpr std::size_t most_trials = 50'000;
/// Refuses more trials than that, and fewer of a sweep without `large_sweeps`, before cases are decoded, each
/// of which has a workload of its own. Whether it refused them.
bool refuse_many_cases(MapReader& in, const CaseCount& count, std::size_t arms, std::int64_t pairs,
                       bool large_sweeps);
/// Refuses more trials and nodes than a plan, with an entry for each, and anybody's patience have room for.
void check_extent(MapReader& in, const Scenario& scenario);

/// Refuses nodes with more ranks than vCPUs, in any arm: what one changes may be its vCPUs.
void refuse_crowded_nodes(MapReader& in, const Scenario& scenario);

/// `expect`: what must hold at the end. The scenario has its arms already.
void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// `probes`: those that one process can measure; what concerns GPUs needs ranks that have some.
std::vector<std::string> decode_probes(MapReader& in, const std::vector<Case>& cases,
                                       Diagnostics& diagnostics);

/// How long things may take, and the pause between them.
void decode_times(MapReader& in, Scenario& scenario);

}  // namespace virtrain::harness
