#include "harness/schedule/command_paths.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr std::string_view word_ends = " \t\n;|&<>()`";
constexpr std::string_view path_ends = " \t\n;|&<>()`'\"=:,@";

std::optional<char> hex_byte(std::string_view digits) {
  unsigned value = 0;
  const auto* const end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, value, 16);
  return failure == std::errc() && stop == end ? std::optional(static_cast<char>(value)) : std::nullopt;
}

bool is_among(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

/// The path that curl and its like open for "file:///tmp/x", "FILE://localhost/tmp/%78", "file:/tmp/x"; empty
/// for other words.
std::string path_of_file_url(std::string_view word) {
  constexpr std::string_view scheme = "file:";
  if (word.size() < scheme.size() || lower(std::string(word.substr(0, scheme.size()))) != scheme) {
    return "";
  }
  auto rest = word.substr(scheme.size());
  rest = rest.substr(0, rest.find_first_of(word_ends));
  if (rest.starts_with("//")) { rest = rest.substr(std::min(rest.find('/', 2), rest.size())); }
  std::string path;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const auto code = rest[i] == '%' && i + 2 < rest.size() ? hex_byte(rest.substr(i + 1, 2)) : std::nullopt;
    path += code ? *code : rest[i];
    if (code) { i += 2; }
  }
  return path;
}

/// By hand: wordexp() runs what it expands, and no library of Debian reads a shell's words without doing so.
class WordSplitter {
 public:
  std::vector<std::string> split(std::string_view command) {
    for (std::size_t i = 0; i < command.size(); ++i) {
      const bool is_escape = command[i] == '\\' && quote_ != '\'' && i + 1 < command.size();
      if (is_escape) {
        take_escaped(command[++i]);
      } else {
        take(command[i]);
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  void take(char c) {
    const char before = std::exchange(before_, c);
    if (quote_ != '\0') {
      if (c == quote_) {
        quote_ = '\0';
      } else {
        word_ += c;
      }
    } else if (c == '\'' || c == '"') {
      quote_ = c;
    } else if (is_among(word_ends, c)) {
      end_word();
      // Not "<>", which reads, too, nor ">(", a command.
      is_output_ = c == '>' ? before != '<' : is_output_ && c != '(';
    } else {
      word_ += c;
    }
  }

  void take_escaped(char c) {
    if (quote_ == '"' && !is_among("$`\"\\\n", c)) { word_ += '\\'; }
    if (c != '\n') { word_ += c; }
  }

  void end_word() {
    if (word_.empty()) { return; }
    if (!std::exchange(is_output_, false)) { words_.push_back(word_); }
    word_.clear();
  }

  std::vector<std::string> words_;
  std::string word_;
  char quote_ = '\0';
  char before_ = '\0';
  bool is_output_ = false;  ///< the next word is a file that is only written to
};

}  // namespace

std::vector<std::string> shell_words(std::string_view command) {
  return WordSplitter().split(command);
}

std::vector<std::string> absolute_paths_in(std::string_view word) {
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin < word.size();) {
    const auto rest = word.substr(begin);
    const auto piece = rest.substr(0, rest.find_first_of(path_ends));
    const auto slash = piece.find('/');
    if (slash == 0 || (slash != std::string_view::npos && piece.front() == '-')) {
      paths.emplace_back(piece.substr(slash));
      if (piece.size() < rest.size()) { paths.emplace_back(rest.substr(slash)); }
    }
    begin += piece.size() + 1;
    const bool is_scheme = piece.size() < rest.size() && rest[piece.size()] == ':' && slash == piece.npos;
    if (const auto path = is_scheme ? path_of_file_url(rest) : ""; !path.empty()) { paths.push_back(path); }
    // "https://host/x", "host:/x": a path of somewhere else.
    if (is_scheme) { begin = std::min(word.find_first_of(path_ends, begin), word.size()); }
  }
  return paths;
}

bool is_plain_path(std::string_view path) {
  return path.find_first_of(path_ends) == std::string_view::npos;
}

}  // namespace virtrain::harness
