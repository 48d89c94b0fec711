#pragma once

#include <boost/asio/signal_set.hpp>

namespace virtrain::harness {

/// SIGINT, SIGTERM and SIGHUP (a closed terminal), the last unless it is ignored, as under nohup.
void add_stop_signals(boost::asio::signal_set& signals);

}  // namespace virtrain::harness
