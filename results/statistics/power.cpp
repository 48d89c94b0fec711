#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <cmath>
#include <numbers>

#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

using StudentsT = boost::math::students_t_distribution<
    double, boost::math::policies::policy<boost::math::policies::promote_double<false>>>;

constexpr double wanted_power = 0.80;
constexpr std::int64_t most_pairs = 10'000;

/// Standard normal distribution.
double phi(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

/// Density of u = s / sigma with nu degrees of freedom, by logarithms: Gamma(nu / 2) overflows above nu =
/// 340.
class SpreadDensity {
 public:
  explicit SpreadDensity(double nu)
      : nu_(nu), log_scale_(std::log(2.0) + nu / 2 * std::log(nu / 2) - std::lgamma(nu / 2)) {}
  double operator()(double u) const {
    return u > 0 ? std::exp(log_scale_ + (nu_ - 1) * std::log(u) - nu_ * u * u / 2) : 0;
  }

 private:
  double nu_;
  double log_scale_;
};

}  // namespace

double power(std::int64_t pairs, double delta, double sigma, double theta, double alpha) {
  const double nu = static_cast<double>(pairs - 1);
  const double c = boost::math::quantile(boost::math::complement(StudentsT(nu), alpha));
  const double sm = sigma / std::sqrt(static_cast<double>(pairs));
  const bool equivalence = std::abs(delta) < theta;
  const SpreadDensity density(nu);
  const auto integrand = [&](double u) {
    const double inside = equivalence ? phi((theta - delta) / sm - c * u) - phi(-(theta + delta) / sm + c * u)
                                      : phi((std::abs(delta) - theta) / sm - c * u);
    return inside * density(u);
  };
  // The density is narrow for many pairs: beyond twelve of its standard deviations there is nothing to add.
  const double reach = 12 / std::sqrt(2 * nu);
  const double from = std::max(0.0, 1 - reach);
  const double to = equivalence ? std::min(1 + reach, theta / (c * sm)) : 1 + reach;
  if (to <= from) return 0;
  return boost::math::quadrature::gauss_kronrod<double, 61>::integrate(integrand, from, to, 12, 1e-11);
}

std::optional<std::int64_t> pairs_for_power(double delta, double sigma, double theta, double alpha) {
  if (!(sigma > 0) || std::abs(delta) == theta) return std::nullopt;
  const auto enough = [&](std::int64_t pairs) {
    return power(pairs, delta, sigma, theta, alpha) >= wanted_power;
  };
  // Power grows with the number of pairs: double until it is enough, then halve the gap.
  std::int64_t low = 2;
  std::int64_t high = 3;
  while (!enough(high)) {
    if (high == most_pairs) return std::nullopt;
    low = high;
    high = std::min(2 * high, most_pairs);
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace virtrain::results
