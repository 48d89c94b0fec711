#pragma once

#include <span>
#include <string>
#include <vector>

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

}  // namespace virtrain::results
