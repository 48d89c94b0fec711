#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace virtrain {

/// Ends a process that gets no further: a lost peer leaves MPI and NCCL waiting for ever, a broken GPU its
/// driver. A thread of its own, since the one that hangs can do nothing any more.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  /// Says that `doing` took too long: writes a record, aborts a communicator. It may itself hang (a pipe that
  /// nobody reads): after `grace` the process is killed (SIGALRM) all the same.
  using Report = std::function<void(const std::string& doing)>;

  Watchdog(Clock::duration limit, Report report, std::chrono::seconds grace = std::chrono::seconds(10));
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Progress: now comes `doing`, and the next progress is due within the limit.
  void expect(const std::string& doing);
  /// The next step may last (a wait for somebody's command).
  void pause();

 private:
  void watch();

  const Clock::duration limit_;
  const Report report_;
  const std::chrono::seconds grace_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string doing_;
  std::optional<Clock::time_point> due_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses all of the above
};

/// Message of a run that got no further for --stall_seconds.
std::string stall_words(std::int64_t stall_seconds);

}  // namespace virtrain
