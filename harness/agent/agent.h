#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "common/files/unique_fd.h"

namespace virtrain::harness {

namespace asio = boost::asio;

/// The agent in a node, a VM's PID 1 or a slice's first process alike: it starts processes and streams their
/// output, samples telemetry, answers clock pings, relays remote-shell requests of mpirun to the coordinator,
/// and kills everything it started when the coordinator goes. Messages: docs/architecture.md, "The agent's
/// messages".
class Agent {
 public:
  /// `stream` is the coordinator's end: a virtio-serial port (`reconnects`: end of file means nobody is there
  /// yet or any more, and the next coordinator is awaited) or a socket (end of file ends the agent).
  Agent(asio::io_context& io, UniqueFd stream, bool reconnects);
  ~Agent();

  /// Serves one conversation after another; returns when a stream that does not reconnect has ended.
  asio::awaitable<void> run();

 private:
  class Conversation;
  asio::io_context& io_;
  UniqueFd stream_;
  bool reconnects_;
};

}  // namespace virtrain::harness
