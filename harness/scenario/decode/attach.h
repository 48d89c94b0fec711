#pragma once

#include <string>
#include <vector>

#include "harness/scenario/attached_machine.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

struct Variant;

/// The key `attach` of an arm: machines that exist already, named after the arm and counted.
std::vector<AttachedMachine> decode_attach(const Field& field, const std::string& arm,
                                           Diagnostics& diagnostics);

/// Refuses cases, and parts of the scenario, that an arm with attached machines cannot have. Pure, once the
/// cases are known.
void check_attached(MapReader& in, const Scenario& scenario, const std::vector<Variant>& variants,
                    Diagnostics& diagnostics);

}  // namespace virtrain::harness
