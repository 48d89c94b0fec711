#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

namespace virtrain::vmctl {

/// CPU time that these processes and everything below them have used so far; what is gone counts nothing.
std::chrono::nanoseconds cpu_time_of_tree(pid_t root);
/// How long the process's threads have together been ready to run while others had the cores.
std::chrono::nanoseconds waiting_time_of(pid_t process);
/// Of all libvirt daemons of this host, without the VMs that they started.
std::chrono::nanoseconds cpu_time_of_libvirt();

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
