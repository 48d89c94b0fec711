#pragma once

#include <cstdint>
#include <optional>

namespace virtrain::stress {

/// How long a worker rests after each piece, so that on the whole it keeps its rate.
class Pace {
 public:
  /// Busy for `share` of the time; where `per_second` is given, at most so much of the work's unit a second.
  Pace(double share, std::optional<double> per_second) : share_(share), per_second_(per_second) {}

  /// Rest in seconds after a piece that took `busy_seconds` and did `work`; 0 until it is worth sleeping.
  /// Time lost (a slow disk, a stopped machine) is caught up only within a second: after it the rate is kept,
  /// not doubled.
  double rest_seconds(double busy_seconds, std::uint64_t work);
  /// How long the rest really was: a sleep that lasted too long is made good.
  void rested(double seconds);

 private:
  double share_;
  std::optional<double> per_second_;
  double ahead_seconds_ = 0;  ///< time that the work done so far may take more than it took
};

}  // namespace virtrain::stress
