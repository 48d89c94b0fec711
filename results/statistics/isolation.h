#pragma once

#include <span>
#include <string>
#include <vector>

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
  double inflation = 0;      ///< shared / alone
  bool few_samples = false;  ///< fewer than 100 steps on a side
};
/// At least one step time on each side. Throws Error(bad_input) unless each is finite and above zero.
TailInflation tail_inflation(const std::vector<double>& alone_seconds,
                             const std::vector<double>& shared_seconds);

}  // namespace virtrain::results
