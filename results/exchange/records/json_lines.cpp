#include "results/exchange/records/json_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

/// "x.json:3:7", or "x.json" where the refusal has no place.
std::string place_in(const std::string& name, std::string_view text, const JsonRefusal& refusal) {
  if (refusal.byte == 0) { return name; }
  const auto before = text.substr(0, refusal.byte - 1);
  const auto line = std::ranges::count(before, '\n') + 1;
  const auto column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return fmt::format("{}:{}:{}", name, line, column);
}

}  // namespace

nlohmann::json parse_part(const LineReader& lines, std::size_t start, const JsonLimits& limits) {
  const auto text = lines.line().substr(start);
  try {
    return parse_json(text, limits);
  } catch (const JsonRefusal& refusal) {
    throw Error(refusal.byte > 0 ? lines.position(start + refusal.byte) : lines.position(),
                ErrorCode::bad_input, refusal.what());
  }
}

bool is_torn(const LineReader& lines, std::size_t start) {
  return !lines.has_end() && parse_json_or_null(lines.line().substr(start)).is_null();
}

nlohmann::json read_document(LineReader& lines) {
  std::string text;
  while (lines.next()) {
    text.append(lines.line()).push_back('\n');
    if (text.size() > longest_line_bytes) { lines.refuse("a JSON document of more than 16 MiB"); }
  }
  while (text.ends_with('\n')) { text.pop_back(); }  // where it breaks off, not behind it
  try {
    return parse_json(text, {.bytes = 2 * longest_line_bytes});
  } catch (const JsonRefusal& refusal) {
    throw Error(place_in(lines.name(), text, refusal), ErrorCode::bad_input, refusal.what());
  }
}

void require_json(LineReader& lines) {
  bool is_empty = true;
  while (is_empty && lines.next()) { is_empty = trim(lines.line()).empty(); }
  if (is_empty || !parse_json_or_null(lines.line()).is_null()) { return lines.rewind(); }
  bool is_last = true;
  while (is_last && lines.next()) { is_last = trim(lines.line()).empty(); }
  const bool is_one_value = is_last || !lines.line().starts_with('{');
  lines.rewind();
  if (is_one_value) {
    read_document(lines);
    lines.rewind();
    lines.refuse("this JSON takes several lines, and exchange records take one each (jq -c makes it so)");
  }
  while (lines.next() && trim(lines.line()).empty()) {}
  parse_part(lines, 0, {});
  lines.rewind();
}

}  // namespace virtrain::results
