#include "results/changes/night_level.h"

#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>

#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

constexpr double least_sigma = 0.001;        // a series that never moved is not infinitely sure
constexpr double mad_to_sigma = 1.4826;      // of normally distributed values
constexpr double median_to_mean = 1.2533;    // standard error of a median over that of a mean
constexpr double fence = 2.5;                // in sigmas: further out a night counts as this far
constexpr double fenced_variance = 0.97756;  // of normally distributed values of variance 1
constexpr double efficiency = 0.8;           // of the fenced standard deviation: its degrees of freedom

/// The smallest distance of two values, where there are few values for many nights.
double step_of(std::span<const double> logs) {
  constexpr double same = 1e-6;
  std::vector<double> sorted(logs.begin(), logs.end());
  std::ranges::sort(sorted);
  std::size_t distinct = 1;
  double least = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double distance = sorted[i] - sorted[i - 1];
    if (distance < same) { continue; }
    ++distinct;
    least = least == 0 ? distance : std::min(least, distance);
  }
  return distinct * 3 <= logs.size() ? least : 0;
}

double fenced_sigma(std::span<const double> logs, double centre, double least) {
  const auto n = static_cast<double>(logs.size());
  std::vector<double> distances;
  for (const double value : logs) { distances.push_back(std::abs(value - centre)); }
  const double typical = std::max(least, mad_to_sigma * median_night(distances) * n / (n - 0.8));
  if (logs.size() < 2) { return typical; }
  double squares = 0;
  for (const double distance : distances) { squares += std::pow(std::min(distance / typical, fence), 2); }
  return std::max(least, typical * std::sqrt(squares / (n - 1) / fenced_variance));
}

/// A few nights hardly tell the autocorrelation: the usual one of hosts counts as much as forty of them.
double autocorrelation_of(std::span<const double> logs, const NightLevel& level) {
  constexpr double usual = 0.2, nights_of_usual = 40, most = 0.6;
  double products = 0, squares = 0;
  const auto near = [&](double value) {
    return std::clamp((value - level.centre) / level.sigma, -fence, fence);
  };
  for (std::size_t i = 0; i < logs.size(); ++i) {
    squares += near(logs[i]) * near(logs[i]);
    if (i > 0) { products += near(logs[i]) * near(logs[i - 1]); }
  }
  const double seen = squares > 0 ? products / squares : 0;
  const auto n = static_cast<double>(logs.size());
  return std::clamp((seen * n + usual * nights_of_usual) / (n + nights_of_usual), 0.0, most);
}

/// The logarithm of n choose k.
double log_choose(std::size_t n, std::size_t k) {
  const auto log_factorial = [](std::size_t i) { return std::lgamma(static_cast<double>(i) + 1); };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

double median_night(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

double NightLevel::standard_error(std::size_t before, std::size_t after) const {
  return sigma * median_to_mean *
         std::sqrt(inflation() * (1 / static_cast<double>(before) + 1 / static_cast<double>(after)));
}

double NightLevel::reach(double probability) const {
  return boost::math::quantile(boost::math::complement(boost::math::students_t(df), probability / 2));
}

void NightLevel::take_noise_of(const NightLevel& other) {
  sigma = other.sigma;
  autocorrelation = other.autocorrelation;
  step = other.step;
  df = other.df;
}

NightLevel night_level(std::span<const double> logs) {
  NightLevel level;
  level.nights = logs.size();
  level.centre = median_night({logs.begin(), logs.end()});
  level.step = step_of(logs);
  level.sigma = fenced_sigma(logs, level.centre, std::max(least_sigma, level.step / std::sqrt(12.0)));
  level.df = std::max(1.0, efficiency * static_cast<double>(logs.size() - 1));
  level.autocorrelation = autocorrelation_of(logs, level);
  return level;
}

double sigma_of_steps(std::span<const double> logs) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < logs.size(); ++i) { steps.push_back(std::abs(logs[i] - logs[i - 1])); }
  return steps.empty() ? 0 : mad_to_sigma * median_night(std::move(steps)) / std::sqrt(2.0);
}

double chance_of_gathering(std::size_t found_before, std::size_t before, std::size_t found_after,
                           std::size_t after) {
  const std::size_t found = found_before + found_after;
  double chance = 0;
  for (std::size_t i = found_after; i <= std::min(after, found); ++i) {
    if (found - i > before) { continue; }
    chance +=
        std::exp(log_choose(after, i) + log_choose(before, found - i) - log_choose(before + after, found));
  }
  return chance;
}

}  // namespace virtrain::results
