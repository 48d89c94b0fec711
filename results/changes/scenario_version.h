#pragma once

#include <string>

namespace virtrain::results {

/// Names what a scenario's text says, whatever its comments, lines and spaces. Pure.
std::string scenario_version(const std::string& scenario_text);

}  // namespace virtrain::results
