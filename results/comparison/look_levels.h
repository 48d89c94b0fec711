#pragma once

#include <cstdint>
#include <optional>

#include "results/statistics/sequential.h"
#include "results/store/comparison_data.h"

namespace virtrain::results {

/// The levels of looks at pairs, which all cases of a comparison share.
class LookLevels {
 public:
  LookLevels(const Looks& looks, const Settings& settings);

  /// Settings of the look after so many pairs: levels of the tests, and of the interval that is reported.
  Settings settings_after(std::int64_t pairs) const;

 private:
  Settings settings_;
  SequentialTest tests_, reporting_;
};

/// When the pairs of an experiment were looked at as it ran; nothing where they were not. A plan that was
/// imported may say anything.
std::optional<Looks> looks_of(const ComparisonExperiment& experiment);

}  // namespace virtrain::results
