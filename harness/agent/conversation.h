#pragma once

#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "harness/agent/agent.h"
#include "harness/agent/child_process.h"
#include "harness/agent/connection.h"
#include "harness/agent/rsh_socket.h"

namespace virtrain::harness {

/// One coordinator's visit: all state that dies with it. Everything runs on the io_context's one thread.
class Agent::Conversation : public std::enable_shared_from_this<Agent::Conversation> {
 public:
  /// `out`: where frames go; not open: to `stream`, too. `silence`: the longest of the coordinator; 0: any.
  Conversation(asio::io_context& io, UniqueFd stream, UniqueFd out = {},
               std::chrono::milliseconds silence = {});
  /// Serves requests until the stream ends or the coordinator breaks the protocol; then kills all
  /// descendants.
  asio::awaitable<void> run();

 private:
  struct Child {
    pid_t pid = -1;
    std::unique_ptr<asio::posix::stream_descriptor> standard_input;
    std::string input = {};   ///< that is to be written to it
    bool is_fed = false;      ///< a task writes
    bool input_ends = false;  ///< nothing comes after that
    int open_outputs = 2;
    int held_up = 0;  ///< of them those whose output waits for the coordinator to read
    std::optional<int> exit_status;
    std::unique_ptr<asio::steady_timer> changed;  ///< cancelled when open_outputs or exit_status changes
  };
  using RshClient = std::shared_ptr<Connection>;

  asio::awaitable<void> serve_requests();
  asio::awaitable<void> watch_silence();
  asio::awaitable<void> handle(Frame request);
  asio::awaitable<void> dispatch(const std::string& type, Frame& request);

  asio::awaitable<void> start(Frame& request);
  void feed_stdin(const Frame& request);
  asio::awaitable<void> write_input(std::int64_t id);
  asio::awaitable<void> relay_output(std::int64_t id, const char* stream_name, UniqueFd output);
  asio::awaitable<void> report_exit(std::int64_t id);
  asio::awaitable<void> reap();

  asio::awaitable<void> reach(std::int64_t id, std::string address, std::int64_t deadline_ms);
  asio::awaitable<void> sample_telemetry(std::int64_t period_ms, std::vector<int> cores);

  asio::awaitable<void> accept_rsh();
  asio::awaitable<void> relay_rsh(RshClient socket);

  void spawn(asio::awaitable<void> task);

  asio::io_context& io_;
  std::shared_ptr<Connection> connection_;
  asio::signal_set child_signals_;
  RshSocket rsh_socket_;
  asio::local::stream_protocol::acceptor rsh_acceptor_;
  std::map<std::int64_t, Child> children_;
  std::map<std::int64_t, RshClient> rsh_clients_;
  std::int64_t next_rsh_id_ = 1;
  std::int64_t telemetry_requests_ = 0;  ///< only the latest one is served
  bool ended_ = false;
  const std::chrono::milliseconds silence_;
  std::int64_t last_heard_ns_ = 0;  ///< 0: nothing yet
};

}  // namespace virtrain::harness
