#pragma once

#include <csignal>

namespace virtrain {

/// Whether a process that waits for a child in its process group passes this signal on to it. A terminal's
/// Ctrl-C has reached the child already; the terminal's end (SIGHUP) is told to the first process of a
/// session alone.
inline bool is_passed_on(const siginfo_t& signal) {
  return signal.si_signo == SIGHUP || signal.si_code != SI_KERNEL;
}

}  // namespace virtrain
