#pragma once

#include "common/model/workload.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// The keys of a workload that make it a job of the user's own: its command, how it starts, and which of its
/// lines say how fast it is. `workload` has all others of the mapping already.
void decode_job(MapReader& in, Workload& workload);

}  // namespace virtrain::harness
