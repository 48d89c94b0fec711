#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/changes/level_changes.h"
#include "results/store/nights.h"

namespace virtrain::results {

/// One figure of a case in an arm over the nights of one scenario.
struct Series {
  std::string scenario = {};
  std::string version = {};    ///< of the scenario's text: another text is another series
  bool current = true;         ///< false: the scenario has changed since
  bool imported = false;       ///< its nights came by `import`, or do not name the host they ran on
  bool is_one_of_two = false;  ///< there is one of nights that ran here and one of imported ones
  std::string case_name = {};  ///< empty for probes
  std::string arm = {};
  std::string kind = {};  ///< of the figure: throughput, ratio, efficiency, step_p99, boot, probe
  std::string figure = {};
  std::string unit = {};
  std::vector<const Night*> nights = {};  ///< those that have a value, in the order of storing
  std::vector<double> values = {};

  bool higher_is_better() const { return unit != "s"; }
  /// "nightly-cpu/one-vm/vm/images_per_second", with " (imported)" where it would stand for two.
  std::string name() const;
  /// Without that: what ids are made of.
  std::string key() const;
  /// The figure, told from the same one of nights that ran here.
  std::string figure_name() const;
};

/// All series of these nights, in the order in which they began. The nights must outlive them.
std::vector<Series> series_of(std::span<const Night> nights, std::span<const NightFigure> figures);

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
