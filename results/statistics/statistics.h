#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/enum_text.h"

namespace virtrain::results {

// Pure functions; docs/method.md has the formulas. The unit is one run: one throughput, finite and positive.
// Values that cannot be one are refused with an Error that names value and position.

/// Limit of a difference that does not matter, and how sure we want to be.
struct Settings {
  double margin = 0.02;           ///< the ratio may lie in (1 - margin, 1 / (1 - margin)); 0 < margin < 1
  double alpha = 0.05;            ///< of each one-sided test; 0 < alpha < 0.5
  double reporting_tail = 0.025;  ///< on each side of the interval that is reported whatever alpha is
};

struct Interval {
  double low = 0;
  double high = 0;
};

VIRTRAIN_ENUM_CLASS(Verdict, equivalent, better, worse, non_inferior, inconclusive, not_comparable)

/// Candidate against baseline on the scale of logarithms: what paired and unpaired data have in common.
struct RatioTest {
  double mean_log = 0;
  double standard_error = 0;      ///< of mean_log
  double ratio = 1;               ///< exp(mean_log): candidate / baseline
  std::optional<double> df = {};  ///< degrees of freedom
  /// 95 %, for reporting, whatever alpha is; this and the next are absent where their limits are no numbers.
  std::optional<Interval> ci = {};
  std::optional<Interval> ci_tost = {};  ///< level 1 - 2 alpha: the one the verdict uses
  std::optional<double> p_lower = {};    ///< H0: at or below the lower margin
  std::optional<double> p_upper = {};    ///< H0: at or above the upper margin
  std::optional<double> tost_p = {};     ///< the larger of the two
  std::optional<double> p_diff = {};     ///< H0: no difference; never decides the verdict
  std::optional<double> p_worse = {};    ///< H0: at or above the lower margin; small where it is worse
  Verdict verdict = Verdict::inconclusive;
  std::string reason = {};  ///< too_few_pairs, too_few_runs or empty
  bool zero_variance = false;
};

struct PairedComparison {
  RatioTest test;
  std::int64_t n = 0;  ///< complete pairs
  std::int64_t dropped_pairs = 0;
  double sd_log = 0;
  std::optional<double> lag1 = {};  ///< autocorrelation of neighbouring pairs, from eight pairs on
  bool follow_each_other = false;   ///< it is above what independent pairs have in 95 of 100 cases
  std::optional<std::int64_t> further_pairs = {};  ///< for 80 % power, if the truth is what was seen
};

/// Difference of means of independent runs on the raw scale, variances not assumed equal.
struct WelchTest {
  double difference = 0;
  std::optional<double> t = {};
  std::optional<double> df = {};
  double p = 1;
  Interval ci;  ///< 95 %
};

/// Interval of a ratio of means; unbounded where the baseline's mean is not clearly away from zero.
struct FiellerInterval {
  enum class Kind { bounded, unbounded_exclusive, unbounded_all };
  VIRTRAIN_DESCRIBE_NESTED_ENUM(Kind, bounded, unbounded_exclusive, unbounded_all)
  double ratio = 1;
  std::optional<double> df = {};
  double g = 0;
  Kind kind = Kind::bounded;
  std::optional<Interval> limits = {};  ///< 95 %
};

struct UnpairedComparison {
  RatioTest test;
  std::int64_t n_baseline = 0;
  std::int64_t n_candidate = 0;
  std::optional<WelchTest> welch = {};
  std::optional<FiellerInterval> fieller = {};
};

/// Throughput of N nodes relative to one node, and that divided by N.
struct Scaling {
  double speedup = 1;
  double efficiency = 1;
  std::optional<double> df = {};
  std::optional<Interval> speedup_ci = {};
  std::optional<Interval> efficiency_ci = {};
};

/// Runs in time order; baseline[k] and candidate[k] are pair k. A missing run drops its whole pair.
PairedComparison compare_paired(std::span<const std::optional<double>> baseline,
                                std::span<const std::optional<double>> candidate, const Settings& settings);

/// Independent runs; below three on a side there is a ratio only.
UnpairedComparison compare_unpaired(std::span<const double> baseline, std::span<const double> candidate,
                                    const Settings& settings);

/// Weak scaling from replicate runs on one node and on `nodes` nodes.
Scaling weak_scaling(std::span<const double> one_node, std::span<const double> many_nodes,
                     std::int64_t nodes);

/// Welch's test of any finite values (they may be negative: differences); at least two on each side.
WelchTest welch_test(std::span<const double> baseline, std::span<const double> candidate);

/// One-sided p values of two one-sided t tests of `mean` against the limits `low` and `high`.
struct OneSided {
  double p_lower = 0;
  double p_upper = 0;
};
OneSided two_one_sided(double mean, double standard_error, double df, double low, double high);

/// Holm's step-down adjustment of p values (1979), in their order: controls the error rate of the family.
/// Error(bad_input) for a value outside 0 … 1.
std::vector<double> holm(std::span<const double> p_values);

/// Student's interval of the mean of two or more values, at this confidence.
Interval interval_of_mean(std::span<const double> values, double confidence);

double mean(std::span<const double> values);
/// Divisor n - 1.
double variance(std::span<const double> values);
/// Quantile of type 7, as numpy and spreadsheets have it; 0 <= p <= 1.
double quantile(std::vector<double> values, double p);

/// Throws Error(bad_input) with name and position unless every value is finite and above zero.
void require_throughputs(std::span<const double> values, const std::string& name);
/// Throws Error(bad_input) unless margin and alpha are in range.
void require_settings(const Settings& settings);

}  // namespace virtrain::results
