#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml_reader.h"

namespace virtrain::harness {

/// `pairs`: a number, or at most how many and what ends them early.
void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// `expect`: what must hold at the end. The scenario has its arms already.
void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// How long things may take, and the pause between them.
void decode_times(MapReader& in, Scenario& scenario);

}  // namespace virtrain::harness
