#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/model/job.h"

namespace virtrain::results {

/// Speed of some steps of a run, as a line of its log says it.
struct StepLine {
  double speed = 0;                  ///< work a second
  bool is_mean = false;              ///< of all steps so far, and not of those since the line before
  std::optional<double> steps = {};  ///< taken so far
  std::optional<double> work = {};   ///< done so far, in what the speed counts
};

/// Facts about the lines of one program.
struct LineFormatFacts {
  LineFormat format;
  const char* unit;   ///< null: the scenario says it
  FigureScope scope;  ///< whose work a line counts
};
const LineFormatFacts& facts_of(LineFormat format);

/// Reads the line as its program writes it; nothing where it is another line, or has no speed. Pure.
std::optional<StepLine> step_line(LineFormat format, std::string_view line);

/// The word that stands where such a line has its speed and is no number above zero: "nan". Pure.
std::optional<std::string> misread_speed(LineFormat format, std::string_view line);

/// The word behind "NAME: " where blanks or the start of the line stand before the name.
std::optional<std::string_view> word_behind(std::string_view line, std::string_view name);

/// A number with or without commas between groups of digits ("1,234.5"), or with commas behind it. "1,5" is
/// no such number: a comma may stand for a decimal point there.
std::optional<double> parse_grouped_number(std::string_view text);

}  // namespace virtrain::results
