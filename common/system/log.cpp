#include "common/system/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"

namespace virtrain::log {
namespace {

Format current_format = Format::text;
Level current_level = Level::info;
Sink sink;
std::string line_start;

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("virtrain");
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

void set_pattern() {
  logger().set_pattern(line_start + (current_format == Format::json ? "%v" : "%^%l%$: %v"));
}

std::string as_text(std::string_view message, const nlohmann::json& fields) {
  std::string line = printable(message);
  if (!fields.is_object()) { return line; }
  for (const auto& [key, value] : fields.items()) {
    line += " " + printable(key) + "=" +
            printable(value.is_string() ? value.get<std::string>() : dump_json(value));
  }
  return line;
}

}  // namespace

void configure(Format format, Level least) {
  current_format = format;
  current_level = least;
  logger().set_level(to_spdlog(least));
  logger().flush_on(spdlog::level::debug);
  set_pattern();
}

Level least_level() {
  return current_level;
}

void pass_on(Sink to) {
  sink = std::move(to);
}

void begin_lines_with(const std::string& bytes) {
  line_start = bytes;
  set_pattern();
}

void write(Level level, std::string_view message, const nlohmann::json& fields) {
  if (!logger().should_log(to_spdlog(level))) { return; }
  if (sink) { return sink(level, message, fields); }
  if (current_format == Format::text) {
    logger().log(to_spdlog(level), as_text(message, fields));
    return;
  }
  nlohmann::json line = fields.is_object() ? fields : nlohmann::json::object();
  line["time"] = iso8601(wall_ns());
  line["level"] = std::string(spdlog::level::to_string_view(to_spdlog(level)).data());
  line["message"] = printable(message);
  logger().log(to_spdlog(level), dump_json(line));
}

}  // namespace virtrain::log
