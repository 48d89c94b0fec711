#include "harness/scenario/yaml/yaml_shape.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <map>
#include <sstream>
#include <vector>

#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_values = 100'000;

struct Refusal {
  YAML::Mark mark;
  std::string message;
};

/// Counts the values of a document as its readers will see them.
class ValueCounter : public YAML::EventHandler {
 public:
  bool is_empty() const { return is_empty_; }

  void OnDocumentStart(const YAML::Mark&) override { ++documents_; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add_leaf(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string&) override {
    add_leaf(mark, anchor);
    is_empty_ = false;
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = sizes_.find(anchor);
    // yaml-cpp makes a circle of it, in which readers would go round for ever.
    if (known == sizes_.end()) { throw Refusal{mark, "an alias is part of what it names"}; }
    add(mark, known->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YAML::anchor_t anchor;
    std::size_t values_before;
  };

  void add(const YAML::Mark& mark, std::size_t count) {
    if (documents_ > 1) { throw Refusal{mark, second_document(mark)}; }
    last_ = mark;
    values_ += count;
    if (values_ > most_values) {
      throw Refusal{mark,
                    fmt::format("more than {} values, those of aliases counted each time", most_values)};
    }
  }
  /// yaml-cpp ends a document before what cannot be part of it, and finds a next one there again and again.
  std::string second_document(const YAML::Mark& mark) const {
    const bool is_stuck = values_ == 1 && is_empty_ && mark.pos == last_.pos;
    return is_stuck ? "not YAML: no value begins so" : "a scenario is one YAML document, not several";
  }
  void add_leaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
    add(mark, 1);
    if (anchor != YAML::NullAnchor) { sizes_[anchor] = 1; }
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    open_.push_back({anchor, values_});
    add(mark, 1);
    is_empty_ = false;
  }
  void close() {
    if (open_.back().anchor != YAML::NullAnchor) {
      sizes_[open_.back().anchor] = values_ - open_.back().values_before;
    }
    open_.pop_back();
  }

  int documents_ = 0;
  std::size_t values_ = 0;
  YAML::Mark last_;
  bool is_empty_ = true;  ///< nothing but nulls so far
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::size_t> sizes_;  ///< of what each anchor names, once it is closed
};

/// Advice for people who write what is not YAML; empty where it is none of the usual slips.
std::string cure_of(const std::string& text, const YAML::Mark& mark) {
  const auto lines = split(text, '\n');
  if (mark.is_null() || mark.line < 0 || mark.line >= std::ssize(lines)) { return ""; }
  const auto& line = lines[static_cast<std::size_t>(mark.line)];
  if (line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string::npos) {
    return " (indent with blanks, not with tabs)";
  }
  const auto colon = line.find(": ");
  const auto begin = colon == std::string::npos ? colon : line.find_first_not_of(' ', colon + 1);
  if (begin == std::string::npos || std::string_view("\"'[{|>").find(line[begin]) != std::string_view::npos) {
    return "";
  }
  if (std::string_view("%@`").find(line[begin]) != std::string_view::npos) {
    return fmt::format(" (a text that begins with {} needs quotes)", line[begin]);
  }
  const auto second = line.find(": ", begin);
  if (second == std::string::npos) { return ""; }
  return line.substr(begin, second - begin).find(',') == std::string::npos
             ? " (a text with ': ' in it needs quotes)"
             : " (a map in one line needs braces, a text with ': ' in it quotes)";
}

}  // namespace

bool check_yaml_shape(const std::string& text, Diagnostics& diagnostics) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  ValueCounter counter;
  try {
    while (parser.HandleNextDocument(counter)) {}
    if (!counter.is_empty()) { return true; }
    diagnostics.add(YAML::Mark(), "the scenario is empty (virtrain scenarios lists examples to begin with)");
  } catch (const Refusal& refusal) {
    diagnostics.add(refusal.mark, refusal.message);
  } catch (const YAML::DeepRecursion& error) {
    diagnostics.add(error.mark, "not YAML: nested too deeply");
  } catch (const YAML::Exception& error) {
    diagnostics.add(error.mark.is_null() ? YAML::Mark() : error.mark,
                    "not YAML: " + excerpt(error.msg) + cure_of(text, error.mark));
  }
  return false;
}

}  // namespace virtrain::harness
