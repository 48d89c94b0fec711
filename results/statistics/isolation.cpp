#include "results/statistics/isolation.h"

#include <boost/math/distributions/binomial.hpp>

#include <algorithm>

#include "common/error.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

constexpr std::size_t enough_steps = 100;

void require_runs(const std::vector<double>& runs, const std::string& name) {
  require_throughputs(runs, name);
  if (runs.empty()) { throw Error("compare isolation", ErrorCode::bad_input, name + " has no runs"); }
}

/// Interval of a quantile, by order statistics, whatever the distribution: each end is missed with this
/// probability.
std::optional<Interval> interval_of_quantile(std::vector<double> values, double p, double miss) {
  const auto n = static_cast<double>(values.size());
  std::ranges::sort(values);
  const boost::math::binomial_distribution<> below(n, p);
  // The quantile lies below the first value if all values lie above it, and so on.
  std::size_t low = 0, high = values.size() + 1;
  for (std::size_t i = 1; i <= values.size(); ++i) {
    if (boost::math::cdf(below, static_cast<double>(i) - 1) <= miss) { low = i; }
    const bool is_above =
        boost::math::cdf(boost::math::complement(below, static_cast<double>(i) - 1)) <= miss;
    if (is_above && i < high) { high = i; }
  }
  if (low == 0 || high > values.size()) { return std::nullopt; }
  return Interval{values[low - 1], values[high - 1]};
}

}  // namespace

Isolation isolation_of(std::vector<double> slowdowns) {
  require_runs(slowdowns, "slowdowns");
  Isolation result;
  const auto count = static_cast<double>(slowdowns.size());
  double squares = 0;
  for (const double slowdown : slowdowns) {
    const double progress = 1 / slowdown;
    result.system_throughput += progress;
    squares += progress * progress;
  }
  result.mean_slowdown = mean(slowdowns);
  result.jain_index = result.system_throughput * result.system_throughput / (count * squares);
  result.worst_slowdown = *std::ranges::max_element(slowdowns);
  result.slowdowns = std::move(slowdowns);
  return result;
}

TailInflation tail_inflation(const std::vector<double>& alone_seconds,
                             const std::vector<double>& shared_seconds) {
  require_runs(alone_seconds, "step times alone");
  require_runs(shared_seconds, "step times shared");
  TailInflation result;
  result.alone_p99_seconds = quantile(alone_seconds, 0.99);
  result.shared_p99_seconds = quantile(shared_seconds, 0.99);
  result.inflation = result.shared_p99_seconds / result.alone_p99_seconds;
  constexpr double miss = 0.0125;  // four ends together miss in 5 %
  const auto alone = interval_of_quantile(alone_seconds, 0.99, miss);
  const auto shared = interval_of_quantile(shared_seconds, 0.99, miss);
  if (alone && shared) { result.ci = Interval{shared->low / alone->high, shared->high / alone->low}; }
  result.few_samples = std::min(alone_seconds.size(), shared_seconds.size()) < enough_steps;
  return result;
}

std::optional<double> recovery_seconds(const std::vector<LaterStep>& steps, double throughput_alone,
                                       double margin) {
  std::size_t first = 0;
  while (first < steps.size() && steps[first].end <= 0) { ++first; }  // still beside the aggressor
  for (; first + recovery_window <= steps.size(); ++first) {
    double work = 0, seconds = 0;
    for (std::size_t i = first; i < first + recovery_window; ++i) {
      work += steps[i].work;
      seconds += steps[i].seconds;
    }
    if (work >= (1 - margin) * throughput_alone * seconds) {
      return std::max(0.0, steps[first].end - steps[first].seconds);
    }
  }
  return std::nullopt;
}

}  // namespace virtrain::results
