#include "vmctl/process/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

/// Reaps orphans that lead sessions of their own: a child that this process starts and waits for stays in its
/// session.
void reap_daemons() {
  for (const auto& task : entries_of("/proc/self/task")) {
    for (const auto& word : split(read_file(task / "children").value_or(""), ' ')) {
      const auto child = static_cast<pid_t>(parse_integer(word).value_or(0));
      if (child > 0 && ::getsid(child) != ::getsid(0)) { ::waitpid(child, nullptr, WNOHANG); }
    }
  }
}

void reap_until(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds pause{100};
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!never.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) { reap_daemons(); }
}

}  // namespace

void adopt_orphans() {
  if (!std::filesystem::exists("/proc/thread-self/children")) { return; }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  static const std::jthread reaper(reap_until);
}

}  // namespace virtrain::vmctl
