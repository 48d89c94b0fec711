#include "results/statistics/sequential.h"

#include <boost/math/distributions/normal.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "common/error.h"

namespace virtrain::results {
namespace {

constexpr double least_step = 1e-14;  ///< of alpha; less cannot be told from nothing
constexpr double least_level = 1e-9;
constexpr double hopeless = 0.05;  ///< conditional power

double upper_normal(double z) {
  return 0.5 * std::erfc(z / std::numbers::sqrt2);
}

double normal_quantile(double upper) {
  return boost::math::quantile(boost::math::complement(boost::math::normal_distribution<double>(), upper));
}

/// Density of the score z * sqrt(share) over paths that have crossed no boundary, on an even grid for
/// Simpson's rule.
class Paths {
 public:
  explicit Paths(double share) : share_(share) {}

  /// Probability that paths not stopped before lie above `score` at `share`.
  double above(double score, double share) const {
    if (weights_.empty()) { return upper_normal(score / std::sqrt(share)); }
    const double step = std::sqrt(share - share_);
    double sum = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      sum += weights_[i] * upper_normal((score - scores_[i]) / step);
    }
    return sum;
  }

  /// The same at `share` for those that went on below `score`.
  Paths stopped_at(double score, double share) const {
    Paths next(share);
    const double low = -reach * std::sqrt(share);
    const double width = (std::min(score, reach * std::sqrt(share)) - low) / (points - 1);
    for (std::size_t i = 0; i < points; ++i) {
      const double at = low + width * static_cast<double>(i);
      const double simpson = i == 0 || i == points - 1 ? 1 : i % 2 == 1 ? 4 : 2;
      next.scores_.push_back(at);
      next.weights_.push_back(simpson * width / 3 * density(at, share));
    }
    return next;
  }

 private:
  static constexpr std::size_t points = 201;
  static constexpr double reach = 8;  ///< standard deviations beyond which nothing is counted

  static double normal_density(double x, double deviation) {
    const double z = x / deviation;
    return std::exp(-z * z / 2) / (deviation * std::sqrt(2 * std::numbers::pi));
  }

  double density(double score, double share) const {
    if (weights_.empty()) { return normal_density(score, std::sqrt(share)); }
    const double step = std::sqrt(share - share_);
    double sum = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      sum += weights_[i] * normal_density(score - scores_[i], step);
    }
    return sum;
  }

  double share_;
  std::vector<double> scores_;
  std::vector<double> weights_;  ///< density times Simpson's weight; empty: the start, all mass at 0
};

/// The score above which just `probability` of the paths lie.
double boundary(const Paths& paths, double share, double probability) {
  double low = -8 * std::sqrt(share);
  double high = 9 * std::sqrt(share);
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (paths.above(middle, share) > probability ? low : high) = middle;
  }
  return high;
}

/// Probability that a one-sided test whose statistic is z at this share ends beyond `critical`, by the trend
/// so far (Lan and Wittes 1988).
double conditional_power(double z, double share, double critical) {
  return upper_normal((critical - z / std::sqrt(share)) / std::sqrt(1 - share));
}

}  // namespace

double spent_alpha(double share, double alpha) {
  return 2 * upper_normal(normal_quantile(alpha / 2) / std::sqrt(share));
}

namespace {

/// Looks in their order, and what they leave of alpha.
class Spending {
 public:
  explicit Spending(double alpha) : alpha_(alpha) {}

  /// Nominal level of a look at this share, were it the next one.
  double level(double share) const { return upper_normal(score(share) / std::sqrt(share)); }

  /// The level of a look there, which is spent then.
  double look(double share) {
    if (!(share > share_ && share <= 1)) {
      throw Error("spend alpha", ErrorCode::bad_input,
                  "shares of information rise from above 0 to at most 1");
    }
    const double at = score(share);
    if (step(share) > least_step) { spent_ += step(share); }
    paths_ = paths_.stopped_at(at, share);
    share_ = share;
    return upper_normal(at / std::sqrt(share));
  }

 private:
  double step(double share) const { return spent_alpha(share, alpha_) - spent_; }
  double score(double share) const {
    return step(share) > least_step ? boundary(paths_, share, step(share))
                                    : std::numeric_limits<double>::infinity();
  }

  double alpha_;
  double share_ = 0, spent_ = 0;
  Paths paths_{0};
};

}  // namespace

std::vector<double> nominal_levels(std::span<const double> shares, double alpha) {
  std::vector<double> levels;
  Spending spending(alpha);
  for (const double share : shares) { levels.push_back(spending.look(share)); }
  return levels;
}

SequentialTest::SequentialTest(const Looks& looks, const Settings& settings) : looks_(looks) {
  const double floor = std::min(least_level, settings.alpha / 1000);
  Spending spending(settings.alpha);
  levels_.push_back(floor);
  for (std::int64_t n = 1; n <= looks.at_most; ++n) {
    const double share = static_cast<double>(n) / static_cast<double>(looks.at_most);
    const double level = looks_at(n) ? spending.look(share) : spending.level(share);
    levels_.push_back(n < looks.first ? floor : std::max(level, floor));
  }
}

bool SequentialTest::looks_at(std::int64_t pairs) const {
  return pairs >= looks_.at_most || (pairs >= looks_.first && (pairs - looks_.first) % looks_.every == 0);
}

double SequentialTest::level(std::int64_t pairs) const {
  return levels_[static_cast<std::size_t>(std::clamp<std::int64_t>(pairs, 0, looks_.at_most))];
}

Stop SequentialTest::look(const RatioTest& test, std::int64_t pairs, std::size_t family) const {
  if (!looks_at(pairs)) { return Stop::go_on; }
  const double now = level(pairs);
  const double low = test.p_lower.value_or(1);
  const double high = test.p_upper.value_or(1);
  const double worse = std::min(1.0, test.p_worse.value_or(1) * static_cast<double>(family));
  if (std::max(low, high) < now || worse < now || 1 - high < now) { return Stop::verdict; }
  if (pairs >= looks_.at_most) { return Stop::at_most; }
  const double share = static_cast<double>(pairs) / static_cast<double>(looks_.at_most);
  if (share < 0.5) { return Stop::go_on; }
  const double critical = normal_quantile(levels_.back());
  const auto power = [&](double p) {
    return conditional_power(normal_quantile(std::clamp(p, 1e-15, 1 - 1e-15)), share, critical);
  };
  const double equivalent = std::max(0.0, power(low) + power(high) - 1);
  return std::max({equivalent, power(worse), power(1 - high)}) < hopeless ? Stop::futility : Stop::go_on;
}

}  // namespace virtrain::results
