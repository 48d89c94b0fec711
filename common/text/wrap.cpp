#include "common/text/wrap.h"

#include <algorithm>

#include "common/text/text.h"

namespace virtrain {

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  for (const auto word : words_of(text)) {
    if (!lines.empty() && text_width(lines.back()) + 1 + text_width(word) <= columns) {
      lines.back() += ' ';
      lines.back() += word;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

std::string hang(std::string_view text, std::size_t columns, std::size_t indent) {
  if (columns == 0) { return std::string(text); }
  return join(wrap(text, columns - std::min(columns, indent)), "\n" + std::string(indent, ' '));
}

}  // namespace virtrain
