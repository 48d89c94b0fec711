#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "workloads/stress/load.h"

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

/// The threads that work on a load, from construction to stop().
class Crew {
 public:
  /// `bytes_per_second`, if given, is of all threads together.
  Crew(Load& load, double share, std::optional<std::uint64_t> bytes_per_second);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Work done so far, in the load's unit.
  std::uint64_t work() const { return work_.load(); }
  /// How long the threads were at work so far, as a mean of them; that a thread waits for a core counts.
  double busy_seconds() const { return static_cast<double>(busy_ns_.load()) * 1e-9 / load_.threads(); }
  /// Asks all threads to end, and says whether they did within this time.
  bool ends_within(std::chrono::milliseconds time);
  /// Ends all threads and waits for them.
  void stop();
  /// Throws what a thread threw, if one did.
  void rethrow_failure();

 private:
  void work_on(int index);
  void work_until_stopped(int index);
  /// Sleeps, but not beyond stop(); how long it really was.
  double rest(double seconds);

  Load& load_;
  double share_;
  std::optional<double> per_second_each_;
  std::atomic<std::uint64_t> work_ = 0;
  std::atomic<std::int64_t> busy_ns_ = 0;
  std::mutex mutex_;  ///< guards stopping_, working_ and failure_
  std::condition_variable woken_;
  std::condition_variable ended_;
  bool stopping_ = false;
  int working_ = 0;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace virtrain::stress
