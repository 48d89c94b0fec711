#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// The scenario's `guest`.
Guest decode_guest(const Field& field, Diagnostics& diagnostics);

/// `limits` of a guest, a tenant or the neighbour; a key that is absent is as in `base`. A share of the CPU
/// is of so many vCPUs.
vmctl::NodeLimits decode_limits(const Field& field, const vmctl::NodeLimits& base, std::int64_t vcpus,
                                Diagnostics& diagnostics);

}  // namespace virtrain::harness
