#include "workloads/stress/run/pace.h"

#include <algorithm>

namespace virtrain::stress {

double Pace::rest_seconds(double busy_seconds, std::uint64_t work) {
  constexpr double longest_catch_up = 1;
  const double due = per_second_ ? static_cast<double>(work) / *per_second_ : busy_seconds / share_;
  ahead_seconds_ = std::max(ahead_seconds_ + due - busy_seconds, -longest_catch_up);
  constexpr double shortest_rest = 1e-3;
  return ahead_seconds_ < shortest_rest ? 0 : ahead_seconds_;
}

void Pace::rested(double seconds) {
  ahead_seconds_ -= seconds;
}

}  // namespace virtrain::stress
