#include "common/text/wrap.h"

#include <algorithm>
#include <utility>

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

namespace {

constexpr std::string_view ellipsis = "…";

/// Each with what ends it.
std::vector<std::string> words_with_ends(std::string_view name, std::string_view ends = " -_./@+=:,") {
  std::vector<std::string> words(1);
  for (const char byte : name) {
    words.back() += byte;
    if (ends.find(byte) != std::string_view::npos) { words.emplace_back(); }
  }
  if (words.size() > 1 && words.back().empty()) { words.pop_back(); }
  return words;
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0, taken = 0;
  for (; bytes < text.size(); ++bytes) {
    if ((text[bytes] & 0xC0) != 0x80 && taken++ == columns) { break; }
  }
  return std::string(text.substr(0, bytes));
}

}  // namespace

std::string abbreviated(const std::string& name, std::size_t columns) {
  if (text_width(name) <= columns || columns == 0) { return name; }
  const auto words = words_with_ends(name);
  // With the mark before it: "weak-…/16".
  const auto last = words.size() < 2 ? words.back() : words[words.size() - 2].back() + words.back();
  std::string first;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (text_width(first) + text_width(words[i]) + 1 + text_width(last) > columns) { break; }
    first += words[i];
  }
  if (!first.empty()) { return first.append(ellipsis).append(last); }
  if (text_width(words[0]) < columns) { return words[0] + std::string(ellipsis); }
  return first_columns(name, columns - 1).append(ellipsis);
}

std::vector<std::string> wrap_within(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  for (auto& line : wrap(text, columns)) {
    if (columns == 0 || text_width(line) <= columns) {
      lines.push_back(std::move(line));
      continue;
    }
    // Levels of a path stay whole where they can.
    auto words = words_with_ends(line, "/ ");
    const bool are_short =
        std::ranges::all_of(words, [&](const auto& word) { return text_width(word) <= columns; });
    if (!are_short) { words = words_with_ends(line); }
    std::string part;
    for (auto& word : words) {
      if (!part.empty() && text_width(part) + text_width(word) > columns) {
        lines.push_back(std::exchange(part, {}));
      }
      for (; text_width(word) > columns; word.erase(0, lines.back().size())) {
        lines.push_back(first_columns(word, columns));
      }
      part += word;
    }
    if (!part.empty()) { lines.push_back(std::move(part)); }
  }
  return lines;
}

}  // namespace virtrain
