#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace virtrain::harness {

/// Figures in a line of a job.
struct LineFigure {
  double value = 0;
  std::optional<double> work = {};  ///< done in all until that line
  /// They tell the figure apart: the texts of the pattern's other named groups.
  std::map<std::string, std::string> settings = {};
};

/// A line that a pattern matches: its figure, or why its value is none.
struct LineReading {
  std::optional<LineFigure> figure = {};
  std::string refusal = {};  ///< "'nan', which is not a number above zero"
};

/// A pattern of lines that say a figure, by RE2, whose time and memory do not grow beyond what a line's
/// length asks for. The group `value` has the figure, `work` (if there is one) what was done in all until
/// then.
class LinePattern {
 public:
  /// `values`: the numbers that a figure may be.
  enum class Values { above_zero, any };
  explicit LinePattern(const std::string& pattern, Values values = Values::above_zero);

  /// Why the pattern cannot be used: "missing ): (?P<value>"; empty: it can.
  const std::string& refusal() const { return refusal_; }
  /// Nothing where the line does not match. A value is a number, with or without commas between thousands
  /// ("1,234.5"), and not a part of one: where a match begins or ends within a number, its value is refused.
  std::optional<LineReading> read(std::string_view line) const;
  /// Whether it has the group `work`.
  bool has_work() const;
  /// Named groups beside `value` and `work`.
  std::vector<std::string> settings() const;
  /// Whether it matches, whatever the figure is.
  bool matches(std::string_view line) const;

 private:
  struct Compiled;
  Values values_;
  std::shared_ptr<const Compiled> compiled_;
  std::string refusal_;
};

/// A text in place of a figure: "'nan', which is not a number above zero".
std::string no_number_words(std::string_view said,
                            LinePattern::Values values = LinePattern::Values::above_zero);

}  // namespace virtrain::harness
