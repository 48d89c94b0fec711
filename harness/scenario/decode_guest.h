#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml_reader.h"

namespace virtrain::harness {

/// The scenario's `guest`.
Guest decode_guest(const Field& field, Diagnostics& diagnostics);

}  // namespace virtrain::harness
