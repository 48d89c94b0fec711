#pragma once

#include <cstddef>
#include <span>
#include <vector>

// Levels of nights on the scale of logarithms, robust against odd nights. Pure.
namespace virtrain::results {

/// The normal level of a series.
struct NightLevel {
  double centre = 0;
  double sigma = 0;            ///< of one night
  double autocorrelation = 0;  ///< of neighbouring nights
  double step = 0;             ///< of a figure that moves in steps; 0: it does not
  double df = 1;               ///< of sigma
  std::size_t nights = 0;

  double inflation() const {
    return (1 + autocorrelation) / (1 - autocorrelation);
  }  ///< of a mean's variance
  /// Standard error of the difference of two medians, of `before` and of `after` nights.
  double standard_error(std::size_t before, std::size_t after) const;
  /// How large a difference is that chance reaches with this probability, on either side.
  double reach(double probability) const;
  /// The same noise around another centre.
  void take_noise_of(const NightLevel& other);
};

double median_night(std::vector<double> values);
/// At least one night.
NightLevel night_level(std::span<const double> logs);

/// The noise by the steps from night to night: one step to a new level does not move it.
double sigma_of_steps(std::span<const double> logs);

/// The probability that of all nights that are beyond some limit `found_after` or more lie among the `after`
/// ones by chance, where `found_before` of `before` do (Fisher's exact test, one side).
double chance_of_gathering(std::size_t found_before, std::size_t before, std::size_t found_after,
                           std::size_t after);

}  // namespace virtrain::results
