#include "common/text/text.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace virtrain {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) { return parts; }
    text.remove_prefix(end + 1);
  }
}

std::string lower(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') { letter = static_cast<char>(letter - 'A' + 'a'); }
  }
  return text;
}

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) { return {}; }
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  std::vector<std::string_view> words;
  for (auto begin = text.find_first_not_of(blanks); begin != text.npos;) {
    const auto end = std::min(text.find_first_of(blanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(blanks, end);
  }
  return words;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+,:=@%-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) { return text; }
  std::string word = "'";
  for (const char c : text) { word += c == '\'' ? "'\\''" : std::string(1, c); }
  return word + "'";
}

std::string line_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto colon = line.find(':');
    if (colon == line.npos || trim(line.substr(0, colon)) != name) { continue; }
    return std::string(trim(line.substr(colon + 1)));
  }
  return "";
}

std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest_word = 100;
  if (word.size() > longest_word) { return std::nullopt; }
  // Edits from one to the other; two letters that change places are one.
  const auto distance = [&](std::string_view other) {
    std::vector<std::size_t> row(other.size() + 1), above, second;
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      second = std::exchange(above, row);
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const bool same = word[i - 1] == other[j - 1];
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && word[i - 1] == other[j - 2] && word[i - 2] == other[j - 1]) {
          row[j] = std::min(row[j], second[j - 2] + 1);
        }
      }
    }
    return row.back();
  };
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : known) {
    const std::size_t d = distance(candidate);
    if (d < best_distance && d < candidate.size()) {
      best = candidate;
      best_distance = d;
    }
  }
  if (best) { return best; }
  const auto begun = std::ranges::find_if(known, [&](const auto& candidate) {  // gpus_per_node of gpus
    const auto rest = candidate.starts_with(word) ? candidate.substr(word.size()) : "";
    return !word.empty() && (rest.starts_with('_') || rest.starts_with('-'));
  });
  return begun == known.end() ? std::nullopt : std::optional(*begun);
}

bool is_ipv4_address(const std::string& text) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1;
}

}  // namespace virtrain
