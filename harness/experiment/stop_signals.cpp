#include "harness/experiment/stop_signals.h"

#include <unistd.h>

#include <csignal>

namespace virtrain::harness {
namespace {

bool is_ignored(int signal_number) {
  struct sigaction action {};
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void add_stop_signals(boost::asio::signal_set& signals) {
  signals.add(SIGINT);
  signals.add(SIGTERM);
  if (!is_ignored(SIGHUP)) { signals.add(SIGHUP); }
}

void end_at_once_on_stop_signals() {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    if (is_ignored(signal_number)) { continue; }
    std::signal(signal_number, [](int signal_received) { ::_exit(128 + signal_received); });
  }
}

}  // namespace virtrain::harness
