#pragma once

#include <boost/asio/signal_set.hpp>

namespace virtrain::harness {

/// SIGINT, SIGTERM and SIGHUP (a closed terminal), the last unless it is ignored, as under nohup.
void add_stop_signals(boost::asio::signal_set& signals);
/// Until then they end this process at once, with the status that a shell would give it.
void end_at_once_on_stop_signals();

}  // namespace virtrain::harness
