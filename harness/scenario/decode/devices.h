#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// The scenario's `devices`.
Devices decode_devices(const Field& field, Diagnostics& diagnostics);

}  // namespace virtrain::harness
