#include "results/exchange/records/json_fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/error.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

/// The place in the text where this number starts; numbers in strings do not count.
std::size_t find_number(std::string_view text, std::string_view number) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && text.substr(i).starts_with(number)) {
      return i;
    }
  }
  return text.npos;
}

void set_place(JsonFault& fault, std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  fault.line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  fault.column = at - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
}

/// Takes "[json.exception.parse_error.101] parse error at line 3, column 7: " off the words.
void take_place(JsonFault& fault, std::string_view text) {
  if (fault.words.starts_with("[json.exception.")) { fault.words.erase(0, fault.words.find(']') + 2); }
  Scanner in(fault.words);
  if (in.take("parse error at line ")) {
    const auto line = parse_integer(in.take_while(is_digit));
    const auto column = in.take(", column ") ? parse_integer(in.take_while(is_digit)) : std::nullopt;
    if (line && column && in.take(": ")) {
      fault = {static_cast<std::size_t>(*line), static_cast<std::size_t>(*column), std::string(in.rest())};
    }
    return;
  }
  // Of a number beyond all doubles the library does not say where it is: "number overflow parsing '1e999'".
  const auto open = fault.words.find('\''), close = fault.words.rfind('\'');
  if (open == close) { return; }
  const auto at = find_number(text, std::string_view(fault.words).substr(open + 1, close - open - 1));
  if (at == text.npos) { return; }
  set_place(fault, text, at);
}

/// Whether NaN or Infinity is what the parser stumbled over: it stops at the first letter, behind a sign at
/// the next.
bool is_no_number(std::string_view text, const JsonFault& fault) {
  for (std::size_t line = 1; line < fault.line; ++line) { text.remove_prefix(text.find('\n') + 1); }
  constexpr std::array words = {"nan", "inf", "-nan", "-inf"};
  for (std::size_t back = 1; back <= 2 && back <= fault.column; ++back) {
    const auto word = lower(std::string(text.substr(std::min(fault.column - back, text.size()), 4)));
    if (std::any_of(words.begin(), words.end(), [&](const char* one) { return word.starts_with(one); })) {
      return true;
    }
  }
  return false;
}

}  // namespace

JsonFault fault_of(std::string_view text, const JsonRefusal& refusal) {
  constexpr std::string_view prefix = "this is not JSON: ", hint = " (NaN and Infinity are not JSON numbers)";
  JsonFault fault{0, 0, refusal.what()};
  if (!fault.words.starts_with(prefix)) {
    // A limit was passed, or a key is there twice.
    if (refusal.column == 0) { return fault; }
    set_place(fault, text, refusal.column - 1);
    return fault;
  }
  fault.words.erase(0, prefix.size());
  if (fault.words.ends_with(hint)) { fault.words.erase(fault.words.size() - hint.size()); }
  take_place(fault, text);
  fault.words = fmt::format("this JSON is damaged: {}{}", fault.words, is_no_number(text, fault) ? hint : "");
  return fault;
}

nlohmann::json parse_part(const LineReader& lines, std::size_t start, const JsonLimits& limits) {
  const auto text = lines.line().substr(start);
  try {
    return parse_json(text, limits);
  } catch (const JsonRefusal& refusal) {
    const auto fault = fault_of(text, refusal);
    throw Error(fault.column > 0 ? lines.position(start + fault.column) : lines.position(),
                ErrorCode::bad_input, fault.words);
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
    const auto fault = fault_of(text, refusal);
    if (fault.line == 0) { lines.refuse(fault.words); }
    throw Error(fmt::format("{}:{}:{}", lines.name(), fault.line, fault.column), ErrorCode::bad_input,
                fault.words);
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
