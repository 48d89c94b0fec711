#pragma once

#include <cstddef>
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

}  // namespace virtrain
