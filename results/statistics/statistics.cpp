#include "results/statistics/statistics.h"

#include <boost/math/distributions/students_t.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/error.h"
#include "results/statistics/power.h"

namespace virtrain::results {
namespace {

constexpr double no_spread = 1e-12;       // standard deviations below it are taken as zero
constexpr double reporting_tail = 0.025;  // of the 95 % interval
constexpr std::int64_t least_runs = 3;

// Doubles are exact enough (1e-13); Boost's default, long double, takes several times as long.
using StudentsT = boost::math::students_t_distribution<
    double, boost::math::policies::policy<boost::math::policies::promote_double<false>>>;

double upper_tail(double t, double df) {
  return boost::math::cdf(boost::math::complement(StudentsT(df), t));
}

/// The t value with `tail` above it.
double critical(double tail, double df) {
  return boost::math::quantile(boost::math::complement(StudentsT(df), tail));
}

double two_sided_p(double t, double df) {
  return 2 * upper_tail(std::abs(t), df);
}

/// Satterthwaite's degrees of freedom of a sum of two independent variance terms.
double pooled_df(double term_a, std::int64_t n_a, double term_b, std::int64_t n_b) {
  const double sum = term_a + term_b;
  return sum * sum /
         (term_a * term_a / static_cast<double>(n_a - 1) + term_b * term_b / static_cast<double>(n_b - 1));
}

/// Absent where its limits are not finite: a level of 1e-9 asks that of three pairs.
std::optional<Interval> log_interval(double mean_log, double half_width) {
  const Interval interval{std::exp(mean_log - half_width), std::exp(mean_log + half_width)};
  return interval.low > 0 && std::isfinite(interval.high) ? std::optional(interval) : std::nullopt;
}

std::vector<double> logs(std::span<const double> values) {
  std::vector<double> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), [](double value) { return std::log(value); });
  return result;
}

/// The first that holds; all inequalities strict.
Verdict verdict_of(double p_lower, double p_upper, double alpha) {
  const bool above_lower = p_lower < alpha;
  const bool below_upper = p_upper < alpha;
  if (above_lower && below_upper) { return Verdict::equivalent; }
  if (1 - p_upper < alpha) { return Verdict::better; }
  if (1 - p_lower < alpha) { return Verdict::worse; }
  if (above_lower) { return Verdict::non_inferior; }
  return Verdict::inconclusive;
}

/// A difference without any spread: every interval is the point, every p is 0 or 1.
void judge_without_spread(RatioTest& test, double theta) {
  test.zero_variance = true;
  test.standard_error = 0;
  // Means of equal logarithms differ by their rounding.
  const auto is_above = [](double a, double b) { return a - b > no_spread; };
  if (!is_above(std::abs(test.mean_log), 0)) {
    test.mean_log = 0;
    test.ratio = 1;
  }
  test.ci = test.ci_tost = Interval{test.ratio, test.ratio};
  test.p_lower = is_above(test.mean_log, -theta) ? 0 : 1;
  test.p_upper = is_above(theta, test.mean_log) ? 0 : 1;
  test.p_diff = test.mean_log != 0 ? 0 : 1;
  test.p_worse = is_above(-theta, test.mean_log) ? 0 : 1;
  // By the point, and strictly: on the edge of the band nothing is shown.
  if (is_above(std::abs(test.mean_log), theta)) {
    test.verdict = test.mean_log > 0 ? Verdict::better : Verdict::worse;
  } else if (is_above(theta, std::abs(test.mean_log))) {
    test.verdict = Verdict::equivalent;
  } else {
    test.verdict = test.mean_log > 0 ? Verdict::non_inferior : Verdict::inconclusive;
  }
}

/// Fills everything that follows from mean_log, standard_error and df.
void judge(RatioTest& test, const Settings& settings) {
  const double theta = -std::log1p(-settings.margin);
  if (test.zero_variance) {
    judge_without_spread(test, theta);
  } else {
    const double df = test.df.value();
    test.ci = log_interval(test.mean_log, critical(settings.reporting_tail, df) * test.standard_error);
    test.ci_tost = log_interval(test.mean_log, critical(settings.alpha, df) * test.standard_error);
    const auto [p_lower, p_upper] = two_one_sided(test.mean_log, test.standard_error, df, -theta, theta);
    test.p_lower = p_lower;
    test.p_upper = p_upper;
    test.p_diff = two_sided_p(test.mean_log / test.standard_error, df);
    test.p_worse = boost::math::cdf(StudentsT(df), (test.mean_log + theta) / test.standard_error);
    test.verdict = verdict_of(p_lower, p_upper, settings.alpha);
  }
  test.tost_p = std::max(*test.p_lower, *test.p_upper);
}

FiellerInterval fieller_interval(std::span<const double> baseline, std::span<const double> candidate) {
  const double m_b = mean(baseline);
  const double m_v = mean(candidate);
  const double a_b = variance(baseline) / static_cast<double>(baseline.size());
  const double a_v = variance(candidate) / static_cast<double>(candidate.size());
  FiellerInterval result;
  result.ratio = m_v / m_b;
  if (a_b == 0 && a_v == 0) {
    result.limits = Interval{result.ratio, result.ratio};
    return result;
  }
  result.df = pooled_df(a_v, std::ssize(candidate), result.ratio * result.ratio * a_b, std::ssize(baseline));
  const double q = critical(reporting_tail, *result.df);
  result.g = q * q * a_b / (m_b * m_b);
  if (result.g >= 1) {
    const double discriminant = m_v * m_v * m_b * m_b - (m_b * m_b - q * q * a_b) * (m_v * m_v - q * q * a_v);
    result.kind =
        discriminant > 0 ? FiellerInterval::Kind::unbounded_exclusive : FiellerInterval::Kind::unbounded_all;
    return result;
  }
  const double c_v = a_v / (m_v * m_v);
  const double c_b = a_b / (m_b * m_b);
  const double half_width = q * std::sqrt(c_v + c_b - result.g * c_v);
  result.limits = Interval{result.ratio * (1 - half_width) / (1 - result.g),
                           result.ratio * (1 + half_width) / (1 - result.g)};
  return result;
}

/// The log ratios of complete pairs; checks every value that is there.
std::vector<double> log_ratios(std::span<const std::optional<double>> baseline,
                               std::span<const std::optional<double>> candidate) {
  if (baseline.size() != candidate.size()) {
    throw Error(
        "compare pairs", ErrorCode::bad_input,
        fmt::format("{} baseline runs and {} candidate runs make no pairs (give the same number of each)",
                    baseline.size(), candidate.size()));
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const auto check = [i](const std::optional<double>& value, const char* side) {
      if (value) { require_throughputs({&*value, 1}, fmt::format("{}, pair {}", side, i + 1)); }
    };
    check(baseline[i], "baseline");
    check(candidate[i], "candidate");
    if (baseline[i] && candidate[i]) { ratios.push_back(std::log(*candidate[i] / *baseline[i])); }
  }
  return ratios;
}

}  // namespace

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double variance(std::span<const double> values) {
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values) { squares += (value - centre) * (value - centre); }
  return squares / static_cast<double>(values.size() - 1);
}

double quantile(std::vector<double> values, double p) {
  if (values.empty()) { throw Error("take a quantile", ErrorCode::bad_input, "there are no values"); }
  std::ranges::sort(values);
  const double h = static_cast<double>(values.size() - 1) * p;
  const auto below = static_cast<std::size_t>(std::floor(h));
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (h - std::floor(h)) * (values[above] - values[below]);
}

void require_throughputs(std::span<const double> values, const std::string& name) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && values[i] > 0) { continue; }
    const std::string position = values.size() == 1 ? "" : fmt::format(", value {}", i + 1);
    throw Error(
        "compare", ErrorCode::bad_input,
        fmt::format("{}{} is {}: a throughput must be finite and above zero", name, position, values[i]));
  }
}

void require_settings(const Settings& settings) {
  if (!(settings.margin > 0 && settings.margin < 1)) {
    throw Error("compare", ErrorCode::bad_input,
                fmt::format("the margin is {}, it must lie between 0 and 1 (2 % is 0.02)", settings.margin));
  }
  if (!(settings.alpha > 0 && settings.alpha < 0.5)) {
    throw Error("compare", ErrorCode::bad_input,
                fmt::format("alpha is {}, it must lie between 0 and 0.5", settings.alpha));
  }
}

OneSided two_one_sided(double mean, double standard_error, double df, double low, double high) {
  return {upper_tail((mean - low) / standard_error, df),
          boost::math::cdf(StudentsT(df), (mean - high) / standard_error)};
}

namespace {

/// Whether neighbouring pairs are more alike than pairs that lie apart: then an interval is too narrow.
void look_for_order(std::span<const double> ratios, PairedComparison& result) {
  constexpr std::int64_t least_pairs = 8;
  constexpr double normal_95 = 1.6449;
  if (result.n < least_pairs || result.test.zero_variance) { return; }
  const auto n = static_cast<double>(result.n);
  double products = 0;
  for (std::size_t i = 1; i < ratios.size(); ++i) {
    products += (ratios[i] - result.test.mean_log) * (ratios[i - 1] - result.test.mean_log);
  }
  result.lag1 = products / (result.sd_log * result.sd_log * (n - 1));
  // For independent pairs it has the mean -1 / n and the variance (n - 2)^2 / (n^2 (n - 1)).
  result.follow_each_other = (*result.lag1 + 1 / n) > normal_95 * (n - 2) / (n * std::sqrt(n - 1));
}

}  // namespace

PairedComparison compare_paired(std::span<const std::optional<double>> baseline,
                                std::span<const std::optional<double>> candidate, const Settings& settings) {
  require_settings(settings);
  const auto ratios = log_ratios(baseline, candidate);
  if (ratios.empty()) { throw Error("compare pairs", ErrorCode::bad_input, "there is no complete pair"); }
  PairedComparison result;
  result.n = std::ssize(ratios);
  result.dropped_pairs = std::ssize(baseline) - result.n;
  result.test.mean_log = mean(ratios);
  result.test.ratio = std::exp(result.test.mean_log);
  if (result.n < least_runs) {
    result.test.reason = "too_few_pairs";
    return result;
  }
  result.sd_log = std::sqrt(variance(ratios));
  result.test.zero_variance = result.sd_log < no_spread;
  result.test.standard_error = result.sd_log / std::sqrt(static_cast<double>(result.n));
  result.test.df = static_cast<double>(result.n - 1);
  judge(result.test, settings);
  look_for_order(ratios, result);
  const auto verdict = result.test.verdict;
  if (verdict == Verdict::equivalent || verdict == Verdict::better || verdict == Verdict::worse) {
    result.further_pairs = 0;
  } else if (!result.test.zero_variance) {
    const auto total =
        pairs_for_power(result.test.mean_log, result.sd_log, -std::log1p(-settings.margin), settings.alpha);
    if (total) { result.further_pairs = std::max<std::int64_t>(1, *total - result.n); }
  }
  return result;
}

WelchTest welch_test(std::span<const double> baseline, std::span<const double> candidate) {
  const double term_b = variance(baseline) / static_cast<double>(baseline.size());
  const double term_v = variance(candidate) / static_cast<double>(candidate.size());
  WelchTest result;
  result.difference = mean(candidate) - mean(baseline);
  const double se = std::sqrt(term_b + term_v);
  if (se == 0) {
    result.p = result.difference == 0 ? 1 : 0;
    result.ci = {result.difference, result.difference};
    return result;
  }
  result.df = pooled_df(term_v, std::ssize(candidate), term_b, std::ssize(baseline));
  result.t = result.difference / se;
  result.p = two_sided_p(*result.t, *result.df);
  const double half_width = critical(reporting_tail, *result.df) * se;
  result.ci = {result.difference - half_width, result.difference + half_width};
  return result;
}

UnpairedComparison compare_unpaired(std::span<const double> baseline, std::span<const double> candidate,
                                    const Settings& settings) {
  require_settings(settings);
  require_throughputs(baseline, "baseline");
  require_throughputs(candidate, "candidate");
  if (baseline.empty() || candidate.empty()) {
    throw Error("compare runs", ErrorCode::bad_input,
                fmt::format("there are no runs of the {}", baseline.empty() ? "baseline" : "candidate"));
  }
  const auto logs_b = logs(baseline);
  const auto logs_v = logs(candidate);
  UnpairedComparison result;
  result.n_baseline = std::ssize(baseline);
  result.n_candidate = std::ssize(candidate);
  result.test.mean_log = mean(logs_v) - mean(logs_b);
  result.test.ratio = std::exp(result.test.mean_log);
  if (std::min(result.n_baseline, result.n_candidate) < least_runs) {
    result.test.reason = "too_few_runs";
    return result;
  }
  const double term_b = variance(logs_b) / static_cast<double>(result.n_baseline);
  const double term_v = variance(logs_v) / static_cast<double>(result.n_candidate);
  result.test.standard_error = std::sqrt(term_b + term_v);
  result.test.zero_variance = result.test.standard_error < no_spread;
  if (!result.test.zero_variance) {
    result.test.df = pooled_df(term_v, result.n_candidate, term_b, result.n_baseline);
  }
  judge(result.test, settings);
  result.welch = welch_test(baseline, candidate);
  result.fieller = fieller_interval(baseline, candidate);
  return result;
}

Interval interval_of_mean(std::span<const double> values, double confidence) {
  const auto n = static_cast<double>(values.size());
  const double centre = mean(values);
  const double reach = critical((1 - confidence) / 2, n - 1) * std::sqrt(variance(values) / n);
  return {centre - reach, centre + reach};
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const std::size_t i : order) {
    if (p_values[i] >= 0 && p_values[i] <= 1) { continue; }
    throw Error("correct p values", ErrorCode::bad_input,
                fmt::format("value {} is {}: a p value lies between 0 and 1", i + 1, p_values[i]));
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, static_cast<double>(order.size() - rank) * p_values[order[rank]]);
    adjusted[order[rank]] = std::min(1.0, largest);
  }
  return adjusted;
}

Scaling weak_scaling(std::span<const double> one_node, std::span<const double> many_nodes,
                     std::int64_t nodes) {
  require_throughputs(one_node, "one node");
  require_throughputs(many_nodes, fmt::format("{} nodes", nodes));
  if (one_node.empty() || many_nodes.empty()) {
    throw Error("compare weak scaling", ErrorCode::bad_input, "there are no runs on one of the sides");
  }
  Scaling result;
  const double count = static_cast<double>(nodes);
  if (nodes == 1) {
    result.speedup_ci = result.efficiency_ci = Interval{1, 1};
    return result;
  }
  const double m_1 = mean(one_node);
  const double m_n = mean(many_nodes);
  result.speedup = m_n / m_1;
  result.efficiency = result.speedup / count;
  if (std::min(std::ssize(one_node), std::ssize(many_nodes)) < least_runs) { return result; }
  const double c_1 = variance(one_node) / (static_cast<double>(one_node.size()) * m_1 * m_1);
  const double c_n = variance(many_nodes) / (static_cast<double>(many_nodes.size()) * m_n * m_n);
  double half_width = 0;
  if (c_1 + c_n > 0) {
    result.df = pooled_df(c_n, std::ssize(many_nodes), c_1, std::ssize(one_node));
    half_width = critical(reporting_tail, *result.df) * std::sqrt(c_n + c_1);
  }
  result.speedup_ci = Interval{result.speedup * std::exp(-half_width), result.speedup * std::exp(half_width)};
  result.efficiency_ci = Interval{result.speedup_ci->low / count, result.speedup_ci->high / count};
  return result;
}

}  // namespace virtrain::results
