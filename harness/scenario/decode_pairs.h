#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml_reader.h"

namespace virtrain::harness {

/// `pairs`: a number, or at most how many and what ends them early.
void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// `expect`: what must hold at the end. The scenario has its arms already.
void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

}  // namespace virtrain::harness
