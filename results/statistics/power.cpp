#include "results/statistics/power.h"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/quadrature/gauss_kronrod.hpp>

#include <algorithm>
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

/// Pairs for the wanted power if sigma were known: (z_alpha + z_beta)² sigma² / (distance to the margin)². Of
/// two-sided equivalence near the middle it gives too few, which costs a few steps only.
std::int64_t pairs_by_normal(double delta, double sigma, double theta, double alpha) {
  const boost::math::normal_distribution<double> normal;
  const double z = boost::math::quantile(boost::math::complement(normal, alpha)) +
                   boost::math::quantile(normal, wanted_power);
  const double pairs = std::pow(z * sigma / (theta - std::abs(delta)), 2);
  // And one and a half for the degrees of freedom.
  return pairs < static_cast<double>(most_pairs) ? static_cast<std::int64_t>(pairs + 1.5) : most_pairs;
}

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
  if (to <= from) { return 0; }
  return boost::math::quadrature::gauss_kronrod<double, 61>::integrate(integrand, from, to, 12, 1e-11);
}

std::optional<std::int64_t> pairs_for_power(double delta, double sigma, double theta, double alpha) {
  if (!(sigma > 0) || std::abs(delta) == theta) { return std::nullopt; }
  const auto enough = [&](std::int64_t pairs) {
    return power(pairs, delta, sigma, theta, alpha) >= wanted_power;
  };
  // Power grows with the number of pairs. The normal approximation is near; from there, steps that double
  // find the other side, and halving the gap finds the number.
  std::int64_t low = 2;
  std::int64_t high = std::clamp(pairs_by_normal(delta, sigma, theta, alpha), std::int64_t{3}, most_pairs);
  std::int64_t step = 1;
  if (enough(high)) {
    while (high > 3 && enough(std::max<std::int64_t>(3, high - step))) {
      high = std::max<std::int64_t>(3, high - step);
      step *= 2;
    }
    low = std::max<std::int64_t>(2, high - step);
  } else {
    do {
      if (high == most_pairs) { return std::nullopt; }
      low = high;
      high = std::min(high + step, most_pairs);
      step *= 2;
    } while (!enough(high));
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace virtrain::results
