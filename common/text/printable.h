#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace virtrain {

/// One step through bytes that may be UTF-8: the code point that starts here and its length. Length 0: no
/// valid sequence starts here (RFC 3629), the bytes are not empty.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};
CodePoint first_code_point(std::string_view bytes);

/// Whether a code point may reach a terminal or a page as it is. What may not: controls (C0 except tab and
/// newline, DEL, C1), what is invisible or turns the direction of text (Unicode's
/// Default_Ignorable_Code_Point and the separators U+2028 and U+2029), interlinear annotations and
/// noncharacters.
bool is_showable(char32_t code_point);

/// Longest text that is shown or kept of what somebody else wrote, unless said otherwise.
inline constexpr std::size_t longest_shown_bytes = std::size_t{64} << 10;
/// The gate for text that somebody else wrote: invalid UTF-8 and what is_showable() refuses become U+FFFD,
/// one for each code point; what is longer ends with how much was left out. Tab and newline stay.
std::string printable(std::string_view bytes, std::size_t most_bytes = longest_shown_bytes);
/// As printable, in one line and short: for a name or value quoted in a message.
std::string excerpt(std::string_view bytes, std::size_t most_bytes = 200);
/// Position of the first byte that is no UTF-8 (RFC 3629); npos if all are.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace virtrain
