#include "results/exchange/records/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <istream>

#include "common/error.h"
#include "common/text/printable.h"

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

}  // namespace virtrain::results
