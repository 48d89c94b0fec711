#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace virtrain::harness {

/// Figures in a line of a job.
struct LineFigure {
  double value = 0;
  std::optional<double> work = {};  ///< done in all until that line
};

/// A pattern of lines that say a figure, by RE2, whose time and memory do not grow beyond what a line's
/// length asks for. The group `value` has the figure, `work` (if there is one) what was done in all until
/// then.
class LinePattern {
 public:
  explicit LinePattern(const std::string& pattern);

  /// Why the pattern cannot be used: "missing ): (?P<value>"; empty: it can.
  const std::string& refusal() const { return refusal_; }
  /// Nothing where the line does not match, or where what it says is no number above zero. Commas between
  /// digits ("1,234.5") are passed over.
  std::optional<LineFigure> figure_in(std::string_view line) const;
  /// Whether it matches, whatever the figure is.
  bool matches(std::string_view line) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string refusal_;
};

}  // namespace virtrain::harness
