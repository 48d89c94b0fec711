#include "common/text/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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

namespace {

struct Range {
  char32_t first, last;
};

/// In order. Default_Ignorable_Code_Point of Unicode 15's DerivedCoreProperties.txt, and what is_showable()
/// says beside it; noncharacters at the ends of planes are not listed.
constexpr Range hidden[] = {
    {0x0000, 0x0008},   {0x000B, 0x001F},  // C0 without tab and newline
    {0x007F, 0x009F},                      // DEL, C1: U+009B begins an escape sequence as ESC [ does
    {0x00AD, 0x00AD},   {0x034F, 0x034F},  // soft hyphen, combining grapheme joiner
    {0x061C, 0x061C},                      // Arabic letter mark
    {0x115F, 0x1160},   {0x17B4, 0x17B5},  // Hangul fillers, Khmer inherent vowels
    {0x180B, 0x180F},   {0x200B, 0x200F},  // Mongolian selectors; zero width, direction marks
    {0x2028, 0x202E},  // separators of lines and paragraphs, bidi embeddings and overrides
    {0x2060, 0x206F},  // invisible operators, bidi isolates
    {0x3164, 0x3164},   {0xFDD0, 0xFDEF},    // Hangul filler, noncharacters
    {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},    // variation selectors, byte order mark
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},    // Hangul filler; unassigned, interlinear annotations
    {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},  // controls of shorthand and music
    {0xE0000, 0xE0FFF},                      // tags, more variation selectors
};

}  // namespace

CodePoint first_code_point(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) { return {first, 1}; }
  const std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                             : (first & 0xF0) == 0xE0         ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  if (length == 0 || bytes.size() < length) { return {}; }
  char32_t value = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) { return {}; }
    value = value << 6 | (at(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || is_surrogate || value > 0x10FFFF) { return {}; }
  return {value, length};
}

bool is_showable(char32_t code_point) {
  if ((code_point & 0xFFFE) == 0xFFFE) { return false; }
  const auto* next = std::ranges::upper_bound(hidden, code_point, {}, &Range::first);
  return next == std::begin(hidden) || code_point > std::prev(next)->last;
}

}  // namespace virtrain
