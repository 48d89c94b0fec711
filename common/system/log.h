#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>

#include "common/enum_text.h"

namespace virtrain::log {

enum class Format { text, json };
VIRTRAIN_ENUM_CLASS(Level, debug, info, warning, error)

/// The level that configure() was given; info without it.
Level least_level();

/// Logs go to stderr; call once from main(). Colour only where stderr is a terminal.
void configure(Format format, Level least);

/// Lines go there from now on, and not to stderr: this process speaks for another one. Once, before there are
/// threads.
using Sink = std::function<void(Level level, std::string_view message, const nlohmann::json& fields)>;
void pass_on(Sink sink);

/// Puts these bytes before each line from now on, such as the sequence that erases a progress line on a
/// terminal.
void begin_lines_with(const std::string& bytes);

/// One event: a short sentence, and fields as a JSON object that both formats print.
void write(Level level, std::string_view message, const nlohmann::json& fields = nullptr);

inline void debug(std::string_view message, const nlohmann::json& fields = nullptr) {
  write(Level::debug, message, fields);
}
inline void info(std::string_view message, const nlohmann::json& fields = nullptr) {
  write(Level::info, message, fields);
}
inline void warning(std::string_view message, const nlohmann::json& fields = nullptr) {
  write(Level::warning, message, fields);
}
inline void error(std::string_view message, const nlohmann::json& fields = nullptr) {
  write(Level::error, message, fields);
}

}  // namespace virtrain::log
