#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace virtrain::results {

/// Parameters of the search for lasting changes in a series of throughputs.
struct ChangeSettings {
  std::size_t window = 50;
  double max_p = 0.001;
};

/// First values of new levels that may last, oldest first: E-divisive within windows, Student's t test.
std::vector<std::size_t> weak_change_points(std::span<const double> series, const ChangeSettings& settings);

/// Best split of values [begin, end) into [begin, tau) and [tau, k): the largest divergence.
struct Split {
  std::size_t tau = 0;
  std::size_t k = 0;
  double divergence = 0;
};
/// Absent for fewer than two values.
std::optional<Split> best_split(std::span<const double> series, std::size_t begin, std::size_t end);

}  // namespace virtrain::results
