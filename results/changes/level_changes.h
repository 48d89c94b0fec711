#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "results/statistics/statistics.h"

namespace virtrain::results {

/// When a series of nights has a new level. docs/nightly.md has the reasons and what a simulation says of
/// these values.
struct ChangeRule {
  std::size_t nights_to_confirm = 3;  ///< fewer nights at a new level are unconfirmed
  std::size_t least_history = 12;     ///< nights before a change that are needed to judge it
  std::size_t most_history = 45;      ///< nights before a change that count, so that slow drift is no change
  double alpha = 0.002;               ///< of the two-sided test of the new level against the history
  double least_shift = 0.02;          ///< smaller changes are not worth a message
  double large_shift = 0.10;          ///< from here on a change is large
};

/// A level that nights left, seen as it was known night by night.
struct LevelChange {
  std::size_t first = 0;                         ///< first night of the new level
  std::optional<std::size_t> confirmed_on = {};  ///< the night that made it certain; none: unconfirmed
  std::optional<std::size_t> mended_on = {};     ///< the night that made certain that the old level is back
  double before = 0;                             ///< median of the nights before
  double after = 0;                              ///< median of the nights since, as of now
  double ratio = 1;                              ///< after / before
  std::optional<Interval> ci = {};               ///< of the ratio, 95 %
  bool large = false;
};

/// Replays the nights in their order. What night N makes certain does not depend on nights after it, so a
/// change keeps its first night however many nights follow; its size is that of all nights since. `accepted`
/// says which changes (by their first night) somebody took for the new normal: these cannot be mended. An
/// unconfirmed change can only be the last one. Error(bad_input) for a value that is not finite and positive.
std::vector<LevelChange> level_changes(std::span<const double> nights, const ChangeRule& rule = {},
                                       const std::function<bool(std::size_t first)>& accepted = {});

}  // namespace virtrain::results
