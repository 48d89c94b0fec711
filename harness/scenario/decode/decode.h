#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>

#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// Decodes a scenario. `file_name` is what positions are shown with. Throws Error(bad_input) whose message is
/// one "file:line:column: what is wrong (what is allowed)" a line. Without `large_sweeps` a sweep of more
/// than 10,000 trials is refused. A hosts file that it names is sought from `folder`, and its hosts are in
/// the text that is stored; without a folder a scenario may name none.
Scenario decode_scenario(const std::string& text, const std::string& file_name, bool large_sweeps = false,
                         const std::optional<std::filesystem::path>& folder = std::nullopt);

/// Reads and decodes; "-" is standard input. Throws Error(bad_input), also where the file cannot be read.
Scenario load_scenario(const std::string& path, bool large_sweeps = false);

/// The folder from which that scenario's hosts file is sought.
std::filesystem::path folder_of_scenario(const std::string& path);

/// The JSON Schema (draft 7) of scenario files: every key with its description, default and example.
nlohmann::ordered_json scenario_schema();

}  // namespace virtrain::harness
