#pragma once

#include <string>
#include <vector>

namespace virtrain::harness {

/// A scenario that ships with virtrain.
struct ShippedScenario {
  std::string name, description, backend, path;
};

/// Shipped scenarios in the order of their names; none where they are neither installed nor in a source tree.
std::vector<ShippedScenario> shipped_scenarios();

/// The file that a verb's argument means. A shipped scenario's name ("quickstart") means that scenario,
/// whatever files somebody has put into this folder; with its ending ("quickstart.yaml") a file here comes
/// first. Everything else is itself.
std::string scenario_path(const std::string& given);

}  // namespace virtrain::harness
