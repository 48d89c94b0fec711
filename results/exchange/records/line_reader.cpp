#include "results/exchange/records/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <istream>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

LineReader::LineReader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

bool LineReader::next() {
  line_.clear();
  std::streambuf& bytes = *in_.rdbuf();
  constexpr int end_of_file = std::char_traits<char>::eof();
  int byte = bytes.sbumpc();
  if (byte == end_of_file) { return false; }
  ++number_;
  for (; byte != end_of_file && byte != '\n'; byte = bytes.sbumpc()) {
    if (line_.size() == longest_line_bytes) {
      refuse("this line is longer than {} MiB; it is not a line of a results file", longest_line_bytes >> 20);
    }
    line_ += static_cast<char>(byte);
  }
  has_end_ = byte == '\n';
  if (number_ == 1 && line_.starts_with(byte_order_mark)) { line_.erase(0, byte_order_mark.size()); }
  if (!line_.empty() && line_.back() == '\r') { line_.pop_back(); }
  check_text();
  return true;
}

void LineReader::rewind() {
  in_.clear();
  in_.seekg(0);
  if (!in_) { throw Error("read " + name_, ErrorCode::io, "it cannot be read a second time"); }
  number_ = 0;
  line_.clear();
}

std::string LineReader::position() const {
  return fmt::format("{}:{}", name_, std::max<std::int64_t>(number_, 1));
}

std::string LineReader::position(std::size_t column) const {
  return fmt::format("{}:{}", position(), column);
}

void LineReader::refuse(const std::string& message) const {
  throw Error(position(), ErrorCode::bad_input, excerpt(message, longest_refusal_bytes));
}

void LineReader::check_text() const {
  const auto refuse_byte = [&](std::size_t at, const char* words) {
    throw Error(position(at + 1), ErrorCode::bad_input, words);
  };
  if (const auto nul = line_.find('\0'); nul != std::string::npos) {
    refuse_byte(nul, "a NUL byte; this is not text (of packed files .gz and .zst are read)");
  }
  if (const auto bad = find_invalid_utf8(line_); bad != std::string::npos) {
    refuse_byte(bad, "these bytes are not UTF-8; save the file as UTF-8");
  }
}

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
