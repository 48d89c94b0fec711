#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>

#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

inline constexpr std::size_t max_scenario_bytes = 1U << 20;

/// The text of a YAML file that the user names; "-" is standard input. `where_else` follows "no such file".
/// Throws Error(bad_input).
std::string read_input_file(const std::string& path, const std::string& where_else);

/// How errors call that file.
std::string input_name(const std::string& path);

/// The document; nothing where there are complaints about the text's shape. Throws Error(bad_input) for a
/// text that is too long or not UTF-8.
std::optional<YAML::Node> parse_input(const std::string& text, const std::string& file_name,
                                      Diagnostics& diagnostics);

}  // namespace virtrain::harness
