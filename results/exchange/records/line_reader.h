#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>

#include "common/text/json.h"

namespace virtrain::results {

/// Longest line that is read; more is no line of any of the formats, and must not fill the memory.
inline constexpr std::size_t longest_line_bytes = std::size_t{16} << 20;

/// Longest words about what is refused: they quote a file that somebody else wrote.
inline constexpr std::size_t longest_refusal_bytes = 2000;

/// The lines of a text file, numbered from 1, without their ends (LF or CRLF) and the byte order mark. Each
/// is checked to be UTF-8 without NUL bytes and of bounded length; what is not is refused with its position.
class LineReader {
 public:
  /// `name` is what messages call the file.
  LineReader(std::istream& in, std::string name);

  /// Goes to the next line; false at the end.
  bool next();
  /// To before the first line again.
  void rewind();

  std::string_view line() const { return line_; }
  /// Whether the present line ends with LF. Without it the file's last line may be the start of a longer one:
  /// a copy that broke off.
  bool has_end() const { return has_end_; }
  const std::string& name() const { return name_; }
  /// From 1; 0 before the first.
  std::int64_t number() const { return number_; }
  /// "name:12" of the present line; "name:1" before the first.
  std::string position() const;
  /// "name:12:5"; columns count bytes from 1.
  std::string position(std::size_t column) const;
  /// Throws Error(bad_input) with the present line's position.
  [[noreturn]] void refuse(const std::string& message) const;
  template <typename Arg, typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Arg, Args...> words, Arg&& arg, Args&&... args) const {
    refuse(fmt::format(words, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }

 private:
  void check_text() const;

  std::istream& in_;
  std::string name_;
  std::string line_;
  std::int64_t number_ = 0;
  bool has_end_ = true;
};

/// The JSON value of the present line from its byte `start` on; refuses what is not JSON with line and
/// column.
nlohmann::json parse_part(const LineReader& lines, std::size_t start, const JsonLimits& limits);

/// Whether the present line is the last, has no end and no whole JSON value from its byte `start` on.
bool is_torn(const LineReader& lines, std::size_t start);

/// One JSON value that takes the whole file. Refuses more than 16 MiB.
nlohmann::json read_document(LineReader& lines);

/// Refuses a file whose first line is no JSON: where that line is damaged, or, if the next begins no object,
/// where the one value that takes the whole file is. Rewinds.
void require_json(LineReader& lines);

}  // namespace virtrain::results
