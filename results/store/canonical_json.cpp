#include "results/store/canonical_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "common/error.h"

namespace virtrain::results {
namespace {

void append(std::string& out, const nlohmann::json& value) {
  if (value.is_object()) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, member] : value.items()) {
      out += separator;
      out += nlohmann::json(key).dump();
      out += ':';
      append(out, member);
      separator = ",";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    const char* separator = "";
    for (const auto& member : value) {
      out += separator;
      append(out, member);
      separator = ",";
    }
    out += ']';
  } else if (value.is_number_float()) {
    out += shortest_number(value.get<double>());
  } else {
    // Bytes that are no UTF-8 must not keep all the others from being exported.
    out += value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace

std::string shortest_number(double value) {
  // "-0" would read back as the whole number 0.
  if (value == 0 && std::signbit(value)) return "-0.0";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::string canonical_json(const nlohmann::json& value) {
  std::string out;
  append(out, value);
  return out;
}

nlohmann::json parse_strict_json(std::string_view text, const std::string& position) {
  std::vector<std::set<std::string>> open_objects;
  std::string duplicate;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second &&
        duplicate.empty()) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  try {
    auto value = nlohmann::json::parse(text, watch);
    if (!duplicate.empty()) {
      throw Error(position, ErrorCode::bad_input, fmt::format("the key \"{}\" appears twice", duplicate));
    }
    return value;
  } catch (const nlohmann::json::exception& failure) {
    throw Error(position, ErrorCode::bad_input,
                fmt::format("this is not JSON: {} (NaN and Infinity are no JSON numbers)", failure.what()));
  }
}

}  // namespace virtrain::results
