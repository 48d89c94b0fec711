#include "workloads/common/watchdog.h"

#include <signal.h>
#include <unistd.h>

namespace virtrain {
namespace {

constexpr int failed = 1;

/// From now on the kernel ends this process when the time is over, whatever its threads wait for.
void arm_alarm(std::chrono::seconds grace) {
  signal(SIGALRM, SIG_DFL);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(static_cast<unsigned>(grace.count()));
}

}  // namespace

Watchdog::Watchdog(Clock::duration limit, Report report, std::chrono::seconds grace)
    : limit_(limit), report_(std::move(report)), grace_(grace), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::expect(const std::string& doing) {
  {
    const std::lock_guard lock(mutex_);
    doing_ = doing;
    due_ = Clock::now() + limit_;
  }
  changed_.notify_one();
}

void Watchdog::pause() {
  {
    const std::lock_guard lock(mutex_);
    due_.reset();
  }
  changed_.notify_one();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (!due_) {
      changed_.wait(lock);
    } else if (Clock::now() < *due_) {
      changed_.wait_until(lock, *due_);
    } else {
      const std::string doing = doing_;
      lock.unlock();  // the report may take long; whoever makes progress meanwhile is too late
      arm_alarm(grace_);
      report_(doing);
      _exit(failed);  // no destructors: they would wait for what hangs
    }
  }
}

std::string stall_words(std::int64_t stall_seconds) {
  return "nothing came of it for " + std::to_string(stall_seconds) +
         " s: another rank or its machine may be gone, or this one is too slow (then --stall_seconds gives "
         "it longer)";
}

}  // namespace virtrain
