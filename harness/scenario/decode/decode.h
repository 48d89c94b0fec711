#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "harness/scenario/scenario.h"

namespace virtrain::harness {

inline constexpr std::size_t max_scenario_bytes = 1U << 20;

/// Decodes a scenario. `file_name` is what positions are shown with. Throws Error(bad_input) whose message is
/// one "file:line:column: what is wrong (what is allowed)" a line. Without `large_sweeps` a sweep of more
/// than 10,000 trials is refused.
Scenario decode_scenario(const std::string& text, const std::string& file_name, bool large_sweeps = false);

/// Reads and decodes; "-" is standard input. Throws Error(bad_input), also where the file cannot be read.
Scenario load_scenario(const std::string& path, bool large_sweeps = false);

/// The JSON Schema (draft 7) of scenario files: every key with its description, default and example.
nlohmann::ordered_json scenario_schema();

}  // namespace virtrain::harness
