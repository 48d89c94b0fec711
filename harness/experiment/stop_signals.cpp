#include "harness/experiment/stop_signals.h"

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

}  // namespace virtrain::harness
