#include "vmctl/api/host.h"

namespace virtrain::vmctl {

bool is_experiment_id(std::string_view text) {
  constexpr std::string_view shape = "00000000t000000-ffffff";
  if (text.size() != shape.size()) { return false; }
  for (std::size_t at = 0; at < shape.size(); ++at) {
    const char c = text[at];
    const bool is_digit = c >= '0' && c <= '9';
    const bool fits = shape[at] == '0'   ? is_digit
                      : shape[at] == 'f' ? is_digit || (c >= 'a' && c <= 'f')
                                         : c == shape[at];
    if (!fits) { return false; }
  }
  return true;
}

}  // namespace virtrain::vmctl
