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

/// A line with its speed, or with the word in its place that is no number above zero: "nan".
struct StepReading {
  StepLine step;
  std::string misread = {};
};

/// Reads the line as its program writes it; nothing where it is another line. Pure.
std::optional<StepReading> read_step(LineFormat format, std::string_view line);
/// The same of lines that have a speed.
std::optional<StepLine> step_line(LineFormat format, std::string_view line);

/// The word behind "NAME: " where blanks or the start of the line stand before the name.
std::optional<std::string_view> word_behind(std::string_view line, std::string_view name);

}  // namespace virtrain::results
