#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

inline constexpr std::int64_t most_nodes = 4096;
inline constexpr std::int64_t most_per_node = 64;
inline constexpr std::size_t most_type_bytes = 64;  ///< of a vGPU type's name or id

/// The scenario's `devices`.
Devices decode_devices(const Field& field, Diagnostics& diagnostics);

}  // namespace virtrain::harness
