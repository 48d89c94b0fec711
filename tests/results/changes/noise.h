#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace virtrain::results {

/// Nights as hosts make them, on the scale of logarithms: autocorrelated noise with heavy tails (Student t),
/// a slow random drift of 1 % a year, a weekly rhythm, odd single nights and odd pairs of nights, missing
/// nights and one gap.
struct NoiseSettings {
  double sigma = 0.005;  ///< of one night
  double autocorrelation = 0.3;
  int degrees = 5;  ///< of freedom of Student's t, 3 or more; 0: normal distribution
  double drift_per_year = 0.01;
  double weekly = 0.001;
  double odd_night = 0.02;   ///< probability of a night with an outlier; 4 in 5 are slower
  double odd_pair = 0.0015;  ///< of two such nights in a row
  double odd_size = 0.05;    ///< mean of their exponential size
  double missing = 0.05;
};

/// Independent and normally distributed nights, and nothing else.
inline NoiseSettings plain_noise(double sigma) {
  return {sigma, 0, 0, 0, 0, 0, 0, 0, 0};
}
/// Rougher than hosts are: Student's t with 3 degrees of freedom, autocorrelated.
inline NoiseSettings rough_noise(double sigma) {
  auto noise = plain_noise(sigma);
  noise.autocorrelation = 0.2;
  noise.degrees = 3;
  return noise;
}

/// Values around 1000; nothing where the night is missing. From night `change_at` on they are `ratio` times
/// as large.
inline std::vector<std::optional<double>> simulate_nights(std::uint64_t seed, std::size_t nights,
                                                          const NoiseSettings& noise,
                                                          std::size_t change_at = SIZE_MAX,
                                                          double ratio = 1) {
  std::mt19937_64 random(seed);
  // Written out, for std's distributions differ between libraries.
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  };
  const auto student = [&] {
    if (noise.degrees == 0) { return normal(); }
    double squares = 0;
    for (int i = 0; i < noise.degrees; ++i) { squares += std::pow(normal(), 2); }
    const double degrees = noise.degrees;
    return normal() / std::sqrt(squares / degrees) * std::sqrt((degrees - 2) / degrees);
  };
  const auto odd = [&] { return noise.odd_size * -std::log(uniform()) * (uniform() < 0.8 ? -1 : 1); };
  std::vector<std::optional<double>> values;
  const std::size_t gap = static_cast<std::size_t>(uniform() * static_cast<double>(nights));
  double drift = 0;
  double error = noise.sigma * normal();
  double outlier = 0;
  bool again = false;
  for (std::size_t night = 0; night < nights; ++night) {
    error = noise.autocorrelation * error +
            noise.sigma * std::sqrt(1 - noise.autocorrelation * noise.autocorrelation) * student();
    drift += noise.drift_per_year / std::sqrt(365.0) * normal();
    const double kind = uniform();
    if (!again) { outlier = kind < noise.odd_night + noise.odd_pair ? odd() : 0; }
    again = !again && kind < noise.odd_pair;
    const bool missing =
        uniform() < noise.missing || (noise.missing > 0 && night >= gap && night < gap + 8 && nights > 100);
    const double value = 1000 * std::exp(error + drift + outlier + (night % 7 >= 5 ? noise.weekly : 0)) *
                         (night >= change_at ? ratio : 1);
    values.push_back(missing ? std::nullopt : std::optional(value));
  }
  return values;
}

}  // namespace virtrain::results
