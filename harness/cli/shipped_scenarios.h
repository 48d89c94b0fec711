#pragma once

#include <filesystem>
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

/// The virtrain that runs: what it starts of itself is the same one, whatever PATH says.
std::filesystem::path this_program();

/// Adds the folders of system programs (ip, debugfs, modprobe) to PATH where they are missing, as they are
/// under cron and for Debian's ordinary users. At the end: what the caller prefers stays first. Call before
/// threads start.
void complete_search_path();

}  // namespace virtrain::harness
