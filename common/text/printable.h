#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace virtrain {

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
