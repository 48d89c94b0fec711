#pragma once

#include <string>

namespace virtrain::results {

/// Names a scenario's text but for comments, empty lines and spaces at ends of lines. Pure.
std::string scenario_version(const std::string& scenario_text);

}  // namespace virtrain::results
