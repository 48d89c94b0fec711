#include "harness/schedule/command_paths.h"

#include <algorithm>
#include <utility>

namespace virtrain::harness {
namespace {

constexpr std::string_view word_ends = " \t\n;|&<>()`";
constexpr std::string_view path_ends = " \t\n;|&<>()`'\"=:,@";

bool is_among(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

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

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+,:=@%-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) { return text; }
  std::string word = "'";
  for (const char c : text) { word += c == '\'' ? "'\\''" : std::string(1, c); }
  return word + "'";
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
    // "https://host/x", "host:/x": a path of somewhere else.
    const bool is_elsewhere = piece.size() < rest.size() && rest[piece.size()] == ':' && slash == piece.npos;
    if (is_elsewhere) { begin = std::min(word.find_first_of(path_ends, begin), word.size()); }
  }
  return paths;
}

bool is_plain_path(std::string_view path) {
  return path.find_first_of(path_ends) == std::string_view::npos;
}

}  // namespace virtrain::harness
