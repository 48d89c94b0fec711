#include "vmctl/api/host_network.h"

#include <algorithm>

#include "common/text/scanner.h"

namespace virtrain::vmctl {

bool is_device_name(const std::string& text) {
  constexpr std::size_t most_bytes = 15;  // as the kernel has them
  const auto plain = [](char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= most_bytes && (is_letter(text[0]) || is_digit(text[0])) &&
         std::ranges::all_of(text, plain);
}

}  // namespace virtrain::vmctl
