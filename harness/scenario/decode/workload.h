#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// Keys given here override `base` (the scenario's own workload for a tenant's).
Workload decode_workload(const Field& field, Workload base, Diagnostics& diagnostics);

}  // namespace virtrain::harness
