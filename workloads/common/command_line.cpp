#include "workloads/common/command_line.h"

#include <CLI/CLI.hpp>

namespace virtrain {

Error usage(const std::string& message) {
  return Error("parse flags", ErrorCode::usage, message);
}

std::optional<std::string> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) { return app.help(); } catch (const CLI::ParseError& error) {
    throw usage(std::string(error.what()) + " (--help lists what is allowed)");
  }
  return std::nullopt;
}

}  // namespace virtrain
