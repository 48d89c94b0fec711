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

  const Looks& looks() const { return looks_; }
  /// Of the look after so many pairs: levels of the tests, and of the interval that is reported.
  Settings settings_after(std::int64_t pairs) const;

 private:
  Looks looks_;
  Settings settings_;
  SequentialTest tests_, reporting_;
};

/// When the pairs were looked at, where all data come from one experiment that was looked at as it ran. A
/// plan that was imported may say anything.
std::optional<LookLevels> looks_of(const ComparisonData& data, const Settings& settings);

}  // namespace virtrain::results
