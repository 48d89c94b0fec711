#include "common/text/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/unicode.h"
#include "common/text/units.h"

namespace virtrain {

std::string printable(std::string_view bytes, std::size_t most_bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [value, length] = first_code_point(bytes);
    const bool shown = length > 0 && is_showable(value);
    const std::string_view piece = shown ? bytes.substr(0, length) : std::string_view("\uFFFD");
    if (text.size() + piece.size() > most_bytes) {
      return text + fmt::format("… ({})", counted(bytes.size(), "more byte"));
    }
    text += piece;
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string excerpt(std::string_view bytes, std::size_t most_bytes) {
  std::string line = printable(bytes, most_bytes);
  for (char& byte : line) {
    if (byte == '\n' || byte == '\t') { byte = ' '; }
  }
  return line;
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = first_code_point(text.substr(at)).bytes;
    if (length == 0) { return at; }
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace virtrain
