#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "results/statistics/statistics.h"

namespace virtrain::results {

// Levels of nights on the scale of logarithms, robust against odd nights. Pure.

/// The normal level of a series.
struct NightLevel {
  double centre = 0;
  double sigma = 0;            ///< of one night
  double autocorrelation = 0;  ///< of neighbouring nights
  double step = 0;             ///< of a figure that moves in steps; 0: it does not
  double df = 1;               ///< of sigma
  std::size_t nights = 0;

  double inflation() const {
    return (1 + autocorrelation) / (1 - autocorrelation);
  }  ///< of a mean's variance
  /// Standard error of the difference of two medians, of `before` and of `after` nights.
  double standard_error(std::size_t before, std::size_t after) const;
  /// How large a difference is that chance reaches with this probability, on either side.
  double reach(double probability) const;
  /// The same noise around another centre.
  void take_noise_of(const NightLevel& other);
};

double median_night(std::vector<double> values);
/// At least one night.
NightLevel night_level(std::span<const double> logs);

/// The noise by the steps from night to night: one step to a new level does not move it.
double sigma_of_steps(std::span<const double> logs);

/// The probability that of all nights that are beyond some limit `found_after` or more lie among the `after`
/// ones by chance, where `found_before` of `before` do (Fisher's exact test, one side).
double chance_of_gathering(std::size_t found_before, std::size_t before, std::size_t found_after,
                           std::size_t after);

/// When a series of nights has a new level. docs/nightly.md has the reasons and what a simulation says of
/// these values.
struct ChangeRule {
  std::size_t nights_to_confirm = 3;  ///< fewer nights at a new level are unconfirmed
  std::size_t least_history = 12;     ///< nights before a change that are needed to judge it
  std::size_t most_history = 45;      ///< nights before a change that count, so that slow drift is no change
  std::size_t nights_of_size = 12;    ///< on each side, that say how large a change is
  double alpha_at_once = 0.0003;      ///< of the two-sided test of three nights against the history
  double alpha = 0.00005;             ///< of more nights: there are many ways to choose them
  double mending_alpha = 0.00002;     ///< of the change that brings an old level back
  double rarity_at_once = 0.002;      ///< how rarely such nights must have come together before, of three
  double rarity = 0.0003;             ///< and of more
  double least_shift = 0.02;          ///< smaller changes are not worth a message
  double large_shift = 0.10;          ///< from here on a change is large
};

/// A level that nights left, seen as it was known night by night.
struct LevelChange {
  std::size_t first = 0;                 ///< first night of the new level
  std::size_t settled = 0;               ///< first night at its end, where the level moved for some nights
  std::size_t earliest = 0, latest = 0;  ///< first nights that fit as well as `first`, both included
  std::optional<std::size_t> confirmed_on = {};  ///< the night that made it certain; none: unconfirmed
  std::optional<std::size_t> mended_on = {};     ///< the night that made certain that the old level is back
  std::optional<std::size_t> back_since = {};    ///< first of the nights that are back
  double before = 0;                             ///< median of the last nights before
  double after = 0;                              ///< median of the first nights since
  double ratio = 1;                              ///< after / before
  std::optional<Interval> ci = {};               ///< of the ratio, 95 %
  bool large = false;
};

/// Somebody took a change for the new normal when `nights` were known.
struct Accepted {
  std::size_t nights = 0;
};
using AcceptedChanges = std::function<std::optional<Accepted>(std::size_t first)>;

/// Replays the nights in their order. What night N makes certain does not depend on nights after it, so a
/// change keeps its first night however many nights follow. `accepted` says which changes (by their first
/// night) somebody took for the new normal: these and those below them cannot be mended. An unconfirmed
/// change can only be the last one. Error(bad_input) for a value that is not finite and positive.
std::vector<LevelChange> level_changes(std::span<const double> nights, const ChangeRule& rule = {},
                                       const AcceptedChanges& accepted = {});

}  // namespace virtrain::results
