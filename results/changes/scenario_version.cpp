#include "results/changes/scenario_version.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/text/sha256.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

constexpr std::string_view blanks = " \t\r";

/// Takes the comments out of YAML, line by line. A "#" in a quoted or block scalar is text, and a quote opens
/// a scalar only where one may begin.
class CommentRemover {
 public:
  std::string without_comment(const std::string& line) {
    const auto indent = line.find_first_not_of(blanks);
    if (indent == std::string::npos) { return ""; }
    if (is_in_block(static_cast<int>(indent))) { return line; }
    const auto end = quote_ == 0 ? begin_line(line, indent) : 0;
    return line.substr(0, read(line, end));
  }

 private:
  static constexpr int none = -1;

  static bool is_blank_at(const std::string& line, std::size_t place) {
    return place >= line.size() || blanks.find(line[place]) != std::string_view::npos;
  }

  /// A block scalar ends with the first line that is indented less than its first one.
  bool is_in_block(int indent) {
    if (!in_block_) { return false; }
    if (block_indent_ == none) { block_indent_ = std::max(indent, parent_ + 1); }
    in_block_ = indent >= block_indent_;
    return in_block_;
  }

  /// Where the line's first token is. A line that is not indented more than its parent begins a node, as does
  /// one below "key:"; others go on with a plain scalar.
  std::size_t begin_line(const std::string& line, std::size_t indent) {
    if (flow_ > 0) { return indent; }
    const bool is_marker = (line.starts_with("---") || line.starts_with("...")) && is_blank_at(line, 3);
    if (is_marker) { parent_ = none; }
    if (is_marker || static_cast<int>(indent) <= parent_) { may_begin_ = true; }
    node_ = none;
    return is_marker ? 3 : indent;
  }

  /// Reads to the line's end or comment.
  std::size_t read(const std::string& line, std::size_t place) {
    for (; place < line.size(); ++place) {
      if (quote_ != 0) {
        place = read_quoted(line, place);
      } else if (line[place] == '#' && (place == 0 || is_blank_at(line, place - 1))) {
        return place;
      } else if (!is_blank_at(line, place)) {
        place = read_token(line, place);
      }
    }
    return line.size();
  }

  std::size_t read_quoted(const std::string& line, std::size_t place) {
    if (quote_ == '"' && line[place] == '\\') { return place + 1; }
    if (line[place] != quote_) { return place; }
    if (quote_ == '\'' && place + 1 < line.size() && line[place + 1] == '\'') { return place + 1; }
    quote_ = 0;
    after_closing_ = true;
    return place;
  }

  /// One character outside quotes; the place of the last one that it took.
  std::size_t read_token(const std::string& line, std::size_t place) {
    const char c = line[place];
    const bool ends_word = is_blank_at(line, place + 1);
    const bool after_closing = std::exchange(after_closing_, false);
    if (may_begin_ && node_ == none) { node_ = static_cast<int>(place); }
    if (c == ':' && (ends_word || (flow_ > 0 && after_closing))) {
      if (flow_ == 0 && node_ != none) { parent_ = node_; }
      expect_node();
    } else if (flow_ > 0 && c == ',') {
      expect_node();
    } else if (flow_ > 0 && (c == ']' || c == '}')) {
      --flow_;
      may_begin_ = false;
      after_closing_ = true;
    } else if (may_begin_) {
      return begin_node(line, place, ends_word);
    }
    return place;
  }

  std::size_t begin_node(const std::string& line, std::size_t place, bool ends_word) {
    const char c = line[place];
    if (c == '&' || c == '!') { return std::min(line.find_first_of(blanks, place), line.size()) - 1; }
    if (flow_ == 0 && ends_word && (c == '-' || c == '?')) {
      parent_ = static_cast<int>(place);
      expect_node();
    } else if (c == '[' || c == '{') {
      ++flow_;
    } else if (flow_ == 0 && (c == '|' || c == '>')) {
      return begin_block(line, place);
    } else {
      may_begin_ = false;
      if (c == '"' || c == '\'') { quote_ = c; }
    }
    return place;
  }

  /// "|", ">-", "|2+": a digit says how far its lines are indented. What follows it is a node.
  std::size_t begin_block(const std::string& line, std::size_t place) {
    in_block_ = true;
    block_indent_ = none;
    for (; !is_blank_at(line, place + 1); ++place) {
      const char c = line[place + 1];
      if (c >= '1' && c <= '9') { block_indent_ = std::max(parent_, 0) + (c - '0'); }
    }
    return place;
  }

  void expect_node() {
    may_begin_ = true;
    node_ = none;
  }

  char quote_ = 0;              ///< that is open
  int flow_ = 0;                ///< brackets that are open
  bool may_begin_ = true;       ///< a node, and not the rest of a plain scalar
  bool after_closing_ = false;  ///< of a quote or bracket: "key":value
  int node_ = none;             ///< column of the node that this line began
  int parent_ = none;           ///< column of the key or dash to which the present node belongs
  bool in_block_ = false;
  int block_indent_ = none;
};

}  // namespace

std::string scenario_version(const std::string& scenario_text) {
  std::string essence;
  CommentRemover remover;
  for (const auto& line : split(scenario_text, '\n')) {
    const auto words = remover.without_comment(line);
    const auto end = words.find_last_not_of(blanks);
    if (end != std::string::npos) { essence += words.substr(0, end + 1) + "\n"; }
  }
  constexpr std::size_t digits = 8;
  return sha256(essence).substr(0, digits);
}

}  // namespace virtrain::results
