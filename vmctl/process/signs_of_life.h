#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace virtrain::vmctl {

/// CPU time of a process and of its children that it has waited for; none of one that is gone.
std::chrono::nanoseconds cpu_time_of(pid_t pid);
/// CPU time that these processes and everything below them have used so far; what is gone counts nothing.
std::chrono::nanoseconds cpu_time_of_tree(pid_t root);

/// One look at a thread: `schedstat` is the kernel's "running waiting slices", in ns.
struct ThreadLook {
  bool ready = false;  ///< it runs, or would if it had a core
  std::string schedstat;
};

/// How long a process's threads have together been ready to run while others had the cores. The kernel adds a
/// wait once it is over: of a thread that has not been let run since the last look it is counted here.
class WaitingTime {
 public:
  explicit WaitingTime(pid_t process = 0) : process_(process) {}
  pid_t process() const { return process_; }

  /// A thread waits in these states: R (ready), D (for the disk), as in proc(5).
  std::chrono::nanoseconds read(std::string_view states = "R");
  /// The same of threads that somebody else has looked at.
  std::chrono::nanoseconds add(const std::map<std::string, ThreadLook>& threads,
                               std::chrono::steady_clock::time_point now);

 private:
  struct Wait {
    std::string schedstat;
    std::chrono::steady_clock::time_point since;
  };
  pid_t process_;
  std::map<std::string, Wait> waits_;  ///< by the thread's number
};

/// Patience with what is alive and slow, none with what stands still: a process on a busy host still uses
/// some CPU time.
class SignsOfLife {
 public:
  using CpuTime = std::function<std::chrono::nanoseconds()>;

  /// Gives up once the CPU time has not grown for `still`, and in any case after `at_most`.
  SignsOfLife(CpuTime cpu_time, std::chrono::milliseconds still, std::chrono::milliseconds at_most);

  /// To be asked again and again while waiting.
  bool gave_up();

 private:
  CpuTime cpu_time_;
  std::chrono::milliseconds still_;
  std::chrono::steady_clock::time_point end_, moved_at_;
  std::chrono::nanoseconds seen_;
};

}  // namespace virtrain::vmctl
