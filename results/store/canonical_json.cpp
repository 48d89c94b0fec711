#include "results/store/canonical_json.h"

#include <charconv>
#include <cmath>

#include "common/text/json.h"

namespace virtrain::results {
namespace {

void append(std::string& out, const nlohmann::json& value) {
  if (value.is_object()) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, member] : value.items()) {
      out += separator;
      out += dump_json(key);
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
    const auto number = value.get<double>();
    out += std::isfinite(number) ? shortest_number(number) : "null";  // JSON has no others
  } else {
    // Bytes that are no UTF-8 must not keep all the others from being exported.
    out += dump_json(value);
  }
}

}  // namespace

std::string shortest_number(double value) {
  // "-0" would read back as the whole number 0.
  if (value == 0 && std::signbit(value)) { return "-0.0"; }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::string canonical_json(const nlohmann::json& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace virtrain::results
