#include "harness/cli/first_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "common/error.h"
#include "common/system/passed_signal.h"

namespace virtrain::harness {
namespace {

/// Reaps all that ended; ends this process once `child` is among them.
void reap(pid_t child) {
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended != child) { continue; }
    std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

}  // namespace

void leave_first_process() {
  if (::getpid() != 1) { return; }
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child < 0) { throw errno_error("start a child of process 1", errno); }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  while (true) {
    siginfo_t signal{};
    if (::sigwaitinfo(&all, &signal) < 0) { continue; }
    if (signal.si_signo == SIGCHLD) {
      reap(child);
    } else if (is_passed_on(signal)) {
      ::kill(child, signal.si_signo);
    }
  }
}

}  // namespace virtrain::harness
