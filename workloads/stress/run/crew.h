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
