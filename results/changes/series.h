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
  std::string case_name = {};  ///< empty for probes
  std::string arm = {};
  std::string figure = {};
  std::string unit = {};
  std::vector<const Night*> nights = {};  ///< those that have a value, in the order of storing
  std::vector<double> values = {};

  bool higher_is_better() const { return unit != "s"; }
  /// "nightly-cpu/one-vm/vm/images_per_second".
  std::string name() const;
};

/// All series of these nights, in the order in which they began. The nights must outlive them.
std::vector<Series> series_of(std::span<const Night> nights, std::span<const NightFigure> figures);

}  // namespace virtrain::results
