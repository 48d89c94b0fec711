#pragma once

#include <cstdint>
#include <optional>

namespace virtrain::results {

/// Exact power of the paired test with `pairs` pairs if the truth is delta and sigma on the log scale: to
/// find equivalence where |delta| < theta, to find the difference where it is larger. theta = -ln(1 -
/// margin).
double power(std::int64_t pairs, double delta, double sigma, double theta, double alpha);

/// Smallest number of pairs (3 … 10,000) with 80 % power; nothing if there is none.
std::optional<std::int64_t> pairs_for_power(double delta, double sigma, double theta, double alpha);

}  // namespace virtrain::results
