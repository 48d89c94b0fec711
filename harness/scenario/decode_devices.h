#pragma once

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml_reader.h"

namespace virtrain::harness {

inline constexpr std::int64_t kMostNodes = 4096;
inline constexpr std::int64_t kMostPerNode = 64;
inline constexpr std::size_t kMostTypeBytes = 64;  ///< of a vGPU type's name or id

/// The scenario's `devices`.
Devices decode_devices(const YAML::Node& node, Diagnostics& diagnostics);

}  // namespace virtrain::harness
