#pragma once

#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// An arm and what it lays over the scenario: the changes of the arms that it is like, then its own.
struct Variant {
  Arm arm;  ///< without cases
  Layers layers;
  YAML::Mark attach_mark = {};  ///< of the machines that it attaches
};

/// The scenario's `arms`; bare_metal and vm where there is none.
std::vector<Variant> decode_arms(MapReader& in, Diagnostics& diagnostics);

/// Refuses what a variant says of a neighbour, of which only `isolation` has one.
void refuse_neighbour(const Variant& variant, Diagnostics& diagnostics);

/// The scenario's `price`, into its arms; a variant's own or that of the arm it is like.
void decode_prices(MapReader& in, std::vector<Variant>& variants, Diagnostics& diagnostics);

}  // namespace virtrain::harness
