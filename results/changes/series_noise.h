#pragma once

#include <optional>
#include <span>

#include "results/changes/level_changes.h"

namespace virtrain::results {

/// How noisy a series is at its present level, and what can be told of it therefore. Shares: 0.02 is 2 %.
struct SeriesNoise {
  std::size_t nights = 0;            ///< at the present level
  std::size_t nights_to_go = 0;      ///< before a change can be told; 0: one can be
  std::optional<double> sigma = {};  ///< from night to night; none: not known yet
  std::optional<double> step = {};   ///< of a figure that moves in steps
  /// The least loss that is told on its third and by its fifteenth night in four of five times.
  std::optional<double> least_loss_3_nights = {}, least_loss_15_nights = {};
  std::optional<std::size_t> noisier_since = {};  ///< night from which on it is noisier than before
  std::optional<double> sigma_before = {};        ///< where it is
  std::optional<std::size_t> drift_since = {};    ///< first night of a level that moved slowly, as no change
  std::optional<double> drift_ratio = {};         ///< how far
};

/// Noise of nights, given the changes that level_changes() finds in them. Pure.
SeriesNoise series_noise(std::span<const double> nights, std::span<const LevelChange> changes,
                         const ChangeRule& rule = {});

}  // namespace virtrain::results
