#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/enum_text.h"

namespace virtrain::results {

/// Parameters of the search for lasting changes in a series of throughputs.
struct ChangeSettings {
  std::size_t window = 50;
  double max_p = 0.001;
  double min_magnitude = 0.05;
};

/// A new level that lasts: E-divisive within windows, Student's t test, then merging.
struct ChangePoint {
  std::size_t index = 0;  ///< first value of the new level, in the series as given
  double mean_before = 0;
  double mean_after = 0;
  double relative_change = 0;  ///< mean_after / mean_before - 1
  double magnitude = 0;        ///< the larger of the two relative distances
  double p = 1;
  bool regression() const { return relative_change < 0; }
};

/// The changes worth reporting, oldest first. Missing values are left out, not filled.
std::vector<ChangePoint> change_points(std::span<const std::optional<double>> series,
                                       const ChangeSettings& settings = {});

/// Indices of all candidates before merging (in the series without its missing values): for tests and
/// reports.
std::vector<std::size_t> weak_change_points(std::span<const double> series, const ChangeSettings& settings);

/// Best split of values [begin, end) into [begin, tau) and [tau, k): the largest divergence.
struct Split {
  std::size_t tau = 0;
  std::size_t k = 0;
  double divergence = 0;
};
/// Absent for fewer than two values.
std::optional<Split> best_split(std::span<const double> series, std::size_t begin, std::size_t end);

/// Alarm for one new value against its history: how far single steps have gone before.
struct FenceResult {
  enum class Verdict { too_little_history, ok, regression, improvement };
  VIRTRAIN_DESCRIBE_NESTED_ENUM(Verdict, too_little_history, ok, regression, improvement)
  Verdict verdict = Verdict::too_little_history;
  double relative_change = 0;
  double q1 = 0;  ///< quartiles of the relative steps in the history
  double q3 = 0;
  double threshold = 0;
};
/// History oldest first; the last 100 values are kept.
FenceResult check_fence(std::span<const double> history, double value);

}  // namespace virtrain::results
