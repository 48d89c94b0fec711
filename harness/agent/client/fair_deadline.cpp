#include "harness/agent/client/fair_deadline.h"

#include <algorithm>
#include <utility>

namespace virtrain::harness {

std::chrono::nanoseconds usable_time(std::chrono::nanoseconds elapsed, std::chrono::nanoseconds waited) {
  return elapsed - std::clamp(waited, std::chrono::nanoseconds(0), elapsed * 9 / 10);
}

FairDeadline::FairDeadline(std::chrono::nanoseconds deadline, WaitingTime waiting_time)
    : deadline_(deadline),
      waiting_time_(std::move(waiting_time)),
      waited_before_(waiting_time_ ? waiting_time_() : std::chrono::nanoseconds(0)) {}

std::chrono::nanoseconds FairDeadline::left() const {
  const auto waited = waiting_time_ ? waiting_time_() - waited_before_ : std::chrono::nanoseconds(0);
  return deadline_ - usable_time(std::chrono::steady_clock::now() - began_, waited);
}

}  // namespace virtrain::harness
