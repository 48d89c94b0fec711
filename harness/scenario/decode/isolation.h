#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// Decodes `isolation` but for its victims, whose list `in` still has to be asked for.
Isolation decode_isolation(MapReader& in, Diagnostics& diagnostics);

/// `neighbour` of `isolation`: what the neighbour may use in an arm with this guest.
vmctl::NodeLimits decode_neighbour_limits(MapReader& in, const Guest& guest, const Layers& of_both,
                                          Diagnostics& diagnostics);

/// Refuses aggressors that are victims, and those that need GPUs where victims have none or are not in VMs.
void check_aggressors(MapReader& in, const Scenario& scenario, const Isolation& isolation);

/// Each arm becomes one arm for each condition: `vm` (alone), `vm+idle`, `vm+cpu@25%`, …
void expand_conditions(Scenario& scenario, const Isolation& isolation);

}  // namespace virtrain::harness
