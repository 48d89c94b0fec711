#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/plan/plan.h"

namespace virtrain::harness {

/// The present work of an experiment, for people who wait.
struct Progress {
  std::string trial;             ///< "[3/6] weak-scaling/2 vm, pair 1"
  std::string now;               ///< "boot", "run, step 3: 12.4 images/s"
  std::int64_t began_ns = 0;     ///< of the experiment, monotonic
  std::int64_t at_ns = 0;        ///< when this was said
  double seconds_left_then = 0;  ///< at most: a verdict may come sooner
};

/// "[3/6] two-nodes vm, pair 1: boot (1:12, about 4 min left)", in at most so many columns.
std::string progress_words(const Progress& progress, std::int64_t now_ns, std::size_t columns);

/// How long the rest of a plan takes: its estimates, corrected by what trials of the same arm took, of any
/// arm where none of it has run.
class RemainingTime {
 public:
  explicit RemainingTime(const Plan& plan) : plan_(plan) {}

  void finished(const PlannedTrial& trial, double seconds);
  /// Time for the rest of the present trial, `elapsed_seconds` after its start, and for all that come after
  /// it.
  double seconds_left(const PlannedTrial& present, double elapsed_seconds) const;

 private:
  struct Sum {
    double taken = 0, estimated = 0;
    double factor() const { return estimated > 0 ? taken / estimated : 1; }
  };
  double expected_seconds(const PlannedTrial& trial) const;

  const Plan& plan_;
  Sum all_;
  std::map<std::string, Sum> by_arm_;
};

}  // namespace virtrain::harness
