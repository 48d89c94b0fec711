#pragma once

#include <optional>
#include <vector>

#include "results/statistics/statistics.h"

namespace virtrain::results {

/// How much tenants get in each other's way: runs alone against runs next to each other.
struct Isolation {
  std::vector<double> slowdowns;  ///< of each tenant, alone / shared by mean throughput: above 1 is slower
  double system_throughput = 0;   ///< sum of the normalised progresses 1 / slowdown
  double mean_slowdown = 0;       ///< average normalised turnaround time
  double jain_index = 0;          ///< fairness of the normalised progresses: 1 is fair
  double worst_slowdown = 0;
};

/// Figures that follow from the slowdowns of the tenants, at least one. Throws Error(bad_input) unless each
/// is finite and above zero.
Isolation isolation_of(std::vector<double> slowdowns);

/// The slow end of step times, shared against alone.
struct TailInflation {
  double alone_p99_seconds = 0;
  double shared_p99_seconds = 0;
  double inflation = 0;  ///< shared / alone
  /// 95 %, of independent steps; none where a side has too few (437) to bound its percentile from above.
  std::optional<Interval> ci = {};
  bool few_samples = false;  ///< fewer than 100 steps on a side
};
/// At least one step time on each side. Throws Error(bad_input) unless each is finite and above zero.
TailInflation tail_inflation(const std::vector<double>& alone_seconds,
                             const std::vector<double>& shared_seconds);

/// A step that a victim took after its aggressor.
struct LaterStep {
  double end = 0;      ///< seconds since the aggressor ended; below 0: before it did
  double seconds = 0;  ///< that it took
  double work = 0;     ///< images, or what else the throughput counts
};
/// So many steps in a row must be as fast as alone, together, for a victim to have recovered.
inline constexpr std::size_t recovery_window = 5;
/// Seconds from the end of the aggressor to the start of the first window in which the victim keeps 1 -
/// margin of its throughput alone; 0 where that window began before. Nothing: no window of these steps does.
std::optional<double> recovery_seconds(const std::vector<LaterStep>& steps, double throughput_alone,
                                       double margin);

}  // namespace virtrain::results
