#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>

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
  /// Standard input and output, through whatever starts programs on this machine. A link that is cut is no
  /// end of file here: once the coordinator has spoken, silence for longer than `silence` ends the agent.
  Agent(asio::io_context& io, UniqueFd in, UniqueFd out, std::chrono::milliseconds silence);
  ~Agent();

  /// Serves one conversation after another; returns when a stream that does not reconnect has ended.
  asio::awaitable<void> run();

 private:
  class Conversation;
  asio::io_context& io_;
  UniqueFd stream_, out_;  ///< `out_` is not open where `stream_` is both
  bool reconnects_;
  std::chrono::milliseconds silence_{0};  ///< 0: any
};

}  // namespace virtrain::harness
