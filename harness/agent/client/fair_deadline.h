#pragma once

#include <chrono>
#include <functional>

namespace virtrain::harness {

/// How long a node's processes have so far been ready to run while the host gave its cores to others.
using WaitingTime = std::function<std::chrono::nanoseconds()>;

/// A deadline in time that the node could use: short for what stands still, patient with what is alive on a
/// busy host, up to ten times as long.
class FairDeadline {
 public:
  FairDeadline(std::chrono::nanoseconds deadline, WaitingTime waiting_time);

  /// Until it passes, if nobody else wants the cores from now on; zero or less: it has passed.
  std::chrono::nanoseconds left() const;
  std::chrono::nanoseconds total() const { return deadline_; }

 private:
  std::chrono::nanoseconds deadline_;
  WaitingTime waiting_time_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds waited_before_;
};

/// The part of an interval that the node could use: at least a tenth, for the threads of a node wait side by
/// side.
std::chrono::nanoseconds usable_time(std::chrono::nanoseconds elapsed, std::chrono::nanoseconds waited);

}  // namespace virtrain::harness
