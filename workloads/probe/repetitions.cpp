#include "workloads/probe/repetitions.h"

#include <algorithm>
#include <cmath>

namespace virtrain::probe {
namespace {

int times_that_last(double seconds, double seconds_of_one) {
  constexpr double most = 10'000;
  return static_cast<int>(std::clamp(std::ceil(seconds / seconds_of_one), 1.0, most));
}

}  // namespace

double best_seconds(int repetitions, const RunTimes& run) {
  constexpr double seconds_of_a_repetition = 0.02;
  constexpr int runs_to_wake_up = 15;  // an idle GPU takes some tenths of a second to its full clock
  run(1);                              // loads what is loaded at the first use
  int times = times_that_last(seconds_of_a_repetition, run(1));
  for (int k = 0; k < runs_to_wake_up; ++k) {
    times = times_that_last(seconds_of_a_repetition, run(times) / times);
  }
  double best = INFINITY;
  for (int k = 0; k < repetitions; ++k) {
    const double seconds = run(times) / times;
    if (k > 0) { best = std::min(best, seconds); }
  }
  return best;
}

}  // namespace virtrain::probe
