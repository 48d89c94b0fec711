#pragma once

#include <optional>
#include <span>
#include <utility>

#include "results/changes/level_changes.h"
#include "results/changes/night_level.h"

// How nights went from one level to another, on the scale of logarithms. Pure.
namespace virtrain::results {

/// Nights around two changes in one direction, as distances from the level before both.
struct TwoSteps {
  std::span<const double> nights;
  std::size_t first = 0;   ///< first night after the first change
  std::size_t second = 0;  ///< and after the second
  double sigma = 0;        ///< of one night
};
/// Whether the nights moved to the last level gradually rather than by two steps.
bool is_ramp(const TwoSteps& steps);

/// A change as it is described: which nights, and how certain it became when it was told.
struct SizedChange {
  NightLevel level;                ///< before, as it was known when the change was told
  std::span<const double> before;  ///< all nights of that level, the oldest first
  std::span<const double> after;   ///< of the new one
  std::size_t nights_told = 0;     ///< nights of `after` when it was told; 0: it was not
  double least_told = 0;           ///< a smaller shift would not have been
};
/// Centres on both sides, ratio and interval; of `rule.nights_of_size` nights a side, so that slow drift does
/// not count as a part of the change.
void describe_size(const SizedChange& sized, const ChangeRule& rule, LevelChange& change);

/// First nights that fit nearly as well as `first`: the nights between which the change lies.
std::pair<std::size_t, std::size_t> range_of_first(std::span<const double> nights, std::size_t first,
                                                   const NightLevel& before, double shift);

}  // namespace virtrain::results
