#include "results/statistics/change_points.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

using Values = std::span<const double>;

/// Sum of squared distances from the mean; 0 for one value.
double squares_around_mean(Values values) {
  return values.size() < 2 ? 0 : variance(values) * static_cast<double>(values.size() - 1);
}

/// Two-sided Student t test with pooled variance of [begin, tau) against [tau, end).
double split_p(Values series, std::size_t begin, std::size_t tau, std::size_t end) {
  const auto before = series.subspan(begin, tau - begin);
  const auto after = series.subspan(tau, end - tau);
  const auto count = static_cast<double>(end - begin);
  if (end - begin <= 2) { return 1; }
  const double difference = mean(after) - mean(before);
  const double pooled = (squares_around_mean(before) + squares_around_mean(after)) / (count - 2);
  if (pooled == 0) { return difference == 0 ? 1 : 0; }
  const double se =
      std::sqrt(pooled * (1 / static_cast<double>(before.size()) + 1 / static_cast<double>(after.size())));
  const boost::math::students_t distribution(count - 2);
  return 2 * boost::math::cdf(boost::math::complement(distribution, std::abs(difference / se)));
}

/// A looser threshold for the first pass: merging makes the final choice.
double first_pass_p(double max_p) {
  if (max_p < 0.05) { return 10 * max_p; }
  return max_p < 0.5 ? 2 * max_p : max_p;
}

/// The strongest candidate over the segments that the points cut out of [begin, end).
struct Candidate {
  Split split;
  std::size_t segment_begin = 0;
  std::size_t segment_end = 0;
};

std::optional<Candidate> strongest(Values series, std::size_t begin, std::size_t end,
                                   const std::set<std::size_t>& points) {
  std::optional<Candidate> best;
  std::size_t from = begin;
  const auto consider = [&](std::size_t to) {
    const auto split = best_split(series, from, to);
    if (split && (!best || split->divergence > best->split.divergence)) {
      best = Candidate{*split, from, to};
    }
    from = to;
  };
  for (const std::size_t point : points) { consider(point); }
  consider(end);
  return best;
}

std::set<std::size_t> points_in_window(Values series, std::size_t begin, std::size_t end, double max_p) {
  std::set<std::size_t> points;
  while (const auto candidate = strongest(series, begin, end, points)) {
    const auto tau = candidate->split.tau;
    if (split_p(series, candidate->segment_begin, tau, candidate->segment_end) > max_p) { break; }
    points.insert(tau);
  }
  return points;
}

}  // namespace

std::optional<Split> best_split(Values series, std::size_t begin, std::size_t end) {
  if (end - begin < 2) { return std::nullopt; }
  const auto distance = [&](std::size_t i, std::size_t j) { return std::abs(series[i] - series[j]); };
  std::optional<Split> best;
  double inside_left = 0;  // sum of distances inside [begin, tau)
  for (std::size_t tau = begin + 1; tau < end; ++tau) {
    for (std::size_t i = begin; i + 1 < tau; ++i) { inside_left += distance(i, tau - 1); }
    const auto a = static_cast<double>(tau - begin);
    double between = 0;
    double inside_right = 0;
    for (std::size_t k = tau + 1; k <= end; ++k) {
      for (std::size_t i = begin; i < tau; ++i) { between += distance(i, k - 1); }
      for (std::size_t j = tau; j + 1 < k; ++j) { inside_right += distance(j, k - 1); }
      const auto b = static_cast<double>(k - tau);
      double divergence = 2 / (a + b) * between;
      if (a > 1) { divergence -= 2 * b / ((a + b) * (a - 1)) * inside_left; }
      if (b > 1) { divergence -= 2 * a / ((a + b) * (b - 1)) * inside_right; }
      if (!best || divergence > best->divergence) { best = Split{tau, k, divergence}; }
    }
  }
  return best;
}

std::vector<std::size_t> weak_change_points(Values series, const ChangeSettings& settings) {
  const double max_p = first_pass_p(settings.max_p);
  std::set<std::size_t> points;
  for (std::size_t begin = 0; begin < series.size();) {
    const std::size_t end = std::min(begin + settings.window, series.size());
    const auto found = points_in_window(series, begin, end, max_p);
    points.insert(found.begin(), found.end());
    const std::size_t half = begin + std::max<std::size_t>(1, settings.window / 2);
    begin = found.empty() ? half : std::max(*found.rbegin(), half);
  }
  return {points.begin(), points.end()};
}

}  // namespace virtrain::results
