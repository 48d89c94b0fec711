#pragma once

#include <optional>
#include <string>

#include "common/error.h"

namespace CLI {
class App;
}

namespace virtrain {

/// A command line that is not allowed, in words that say what is.
Error usage(const std::string& message);

/// Reads the command line into the app's options. Returns the help where it was asked for; Error(usage) for
/// what the app does not know or allow.
std::optional<std::string> parse_command_line(CLI::App& app, int argc, const char* const* argv);

}  // namespace virtrain
