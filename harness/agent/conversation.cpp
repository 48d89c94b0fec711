#include "harness/agent/conversation.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <utility>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "harness/agent/machine_report.h"
#include "harness/agent/messages.h"

namespace virtrain::harness {
namespace {

using boost::system::error_code;
using namespace asio::experimental::awaitable_operators;

constexpr std::size_t output_chunk_bytes = 32768;
/// How long output may go on after its process has ended (a grandchild holds the pipe).
constexpr std::chrono::milliseconds output_grace{500};

/// The answer to `read_file`. Throws Error.
Frame file_frame(const std::string& path, std::int64_t id) {
  auto content = read_file(path, max_body_bytes);
  if (!content) {
    throw Error("read " + path, ErrorCode::io, errno == EFBIG ? "over 1 MiB" : "cannot be read");
  }
  auto frame = make_frame("file", id);
  frame.body = std::move(*content);
  return frame;
}

/// Holds the connection while it writes.
asio::awaitable<void> write_queued_of(std::shared_ptr<Connection> connection) {
  co_await connection->write_queued();
}

}  // namespace

Agent::Conversation::Conversation(asio::io_context& io, UniqueFd stream, UniqueFd out,
                                  std::chrono::milliseconds silence)
    : io_(io),
      connection_(std::make_shared<Connection>(io, std::move(stream), std::move(out))),
      child_signals_(io, SIGCHLD),
      rsh_acceptor_(io, asio::local::stream_protocol(), rsh_socket_.take_listener().release()),
      silence_(silence) {}

void Agent::Conversation::spawn(asio::awaitable<void> task) {
  // A task that ends early (a closed pipe, a closed connection) needs no report. Some outlast the
  // conversation by a moment (a timer that has to fire first), so each keeps it alive.
  asio::co_spawn(io_, std::move(task), [self = shared_from_this()](std::exception_ptr) {});
}

asio::awaitable<void> Agent::Conversation::run() {
  spawn(write_queued_of(connection_));
  spawn(accept_rsh());
  spawn(reap());
  if (silence_.count() > 0) { spawn(watch_silence()); }
  try {
    co_await connection_->send(make_frame("announce", 0));
    co_await serve_requests();
  } catch (const std::exception&) {
    // The coordinator has gone, or is none of our kind. Whatever it was, what it started must end.
  }
  ended_ = true;
  kill_descendants();
  connection_->close();
  rsh_acceptor_.close();
  child_signals_.cancel();
  for (auto& [id, client] : rsh_clients_) { client->close(); }
  for (auto& [id, child] : children_) { child.changed->cancel(); }
  // Let the spawned tasks see the closed descriptors before this object goes.
  asio::steady_timer settle(io_, std::chrono::milliseconds(100));
  co_await settle.async_wait(asio::use_awaitable);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
}

asio::awaitable<void> Agent::Conversation::serve_requests() {
  while (true) {
    auto request = co_await connection_->receive();
    last_heard_ns_ = monotonic_ns();
    co_await handle(std::move(request));
  }
}

asio::awaitable<void> Agent::Conversation::watch_silence() {
  constexpr std::chrono::milliseconds period{250};
  asio::steady_timer timer(io_);
  while (!ended_) {
    timer.expires_after(period);
    co_await timer.async_wait(asio::use_awaitable);
    const std::chrono::nanoseconds late = std::chrono::steady_clock::now() - timer.expiry();
    // Where this machine itself stood still, what was said meanwhile is yet to be read.
    if (last_heard_ns_ > 0 && late > period) { last_heard_ns_ += late.count(); }
    const std::chrono::nanoseconds silent(monotonic_ns() - last_heard_ns_);
    if (last_heard_ns_ > 0 && silent > silence_) { connection_->close(); }
  }
}

asio::awaitable<void> Agent::Conversation::handle(Frame request) {
  const std::string type = string_field(request.message, "type");
  std::string failure;
  try {
    co_await dispatch(type, request);
    co_return;
  } catch (const boost::system::system_error&) {
    throw;  // the connection itself
  } catch (const std::exception& error) {
    failure = error.what();  // of this request only, fields of the wrong type included
  }
  Frame frame = message::frame_of(message::Failed{failure}, integer_field(request.message, "id"));
  co_await connection_->send(std::move(frame));
}

asio::awaitable<void> Agent::Conversation::dispatch(const std::string& type, Frame& request) {
  const std::int64_t id = integer_field(request.message, "id");
  std::optional<Frame> answer;
  if (type == message::Hello::type) {
    answer = message::frame_of(message::read<message::Hello>(request), id);
    answer->message["facts"] = read_node_facts();
  } else if (type == "ping") {
    answer = message::frame_of(message::Pong{monotonic_ns(), wall_ns()}, id);
  } else if (type == message::Start::type) {
    co_await start(request);
  } else if (type == message::Stdin::type) {
    feed_stdin(request);
  } else if (type == message::Signal::type) {
    const auto child = children_.find(id);
    if (child != children_.end() && !child->second.exit_status) {
      ::kill(-child->second.pid, static_cast<int>(message::read<message::Signal>(request).signal));
    }
  } else if (type == "sweep") {
    answer = message::frame_of(message::Swept{kill_descendants()}, id);
  } else if (type == message::ReadFile::type) {
    answer = file_frame(message::read<message::ReadFile>(request).path, id);
  } else if (type == "pci_functions") {
    answer = make_frame("pci", id);
    answer->body = pci_report(vmctl::read_pci_functions("/"));
  } else if (type == message::Machine::type) {
    answer = message::frame_of(machine_report(), id);
  } else if (type == message::WriteFile::type) {
    const auto file = message::read<message::WriteFile>(request);
    write_file_atomically(file.path, request.body, static_cast<mode_t>(file.mode.value_or(0644)));
    answer = make_frame("written", id);
  } else if (type == message::Reach::type) {
    const auto wanted = message::read<message::Reach>(request);
    spawn(reach(id, wanted.address, wanted.deadline_ms));
  } else if (type == message::SampleTelemetry::type) {
    const auto wanted = message::read<message::SampleTelemetry>(request);
    spawn(sample_telemetry(wanted.period_ms, parse_cpu_list(wanted.cores.value_or(""))));
  } else if (type == "rsh_output" || type == "rsh_exit") {
    const auto client = rsh_clients_.find(id);
    // Not awaited: one that reads nothing must not hold up the requests that end it.
    if (client != rsh_clients_.end() && client->second->is_open() && !client->second->post(request)) {
      client->second->close();
    }
  } else {
    throw Error("handle request", ErrorCode::protocol, fmt::format("unknown type '{}'", printable(type)));
  }
  if (answer) { co_await connection_->send(std::move(*answer)); }
}

// --- processes

asio::awaitable<void> Agent::Conversation::start(Frame& request) {
  const std::int64_t id = integer_field(request.message, "id");
  auto wanted = message::read<message::Start>(request);
  ProcessSpec spec{std::move(wanted.argv), std::move(wanted.environment).value_or(Variables())};
  for (const auto& [name, value] : rsh_socket_.environment()) { spec.environment[name] = value; }
  if (children_.contains(id)) {
    throw Error("start process", ErrorCode::protocol, fmt::format("id {} is taken", id));
  }

  auto started = start_process(spec);
  Child& child = children_[id];
  child.pid = started.pid;
  child.standard_input =
      std::make_unique<asio::posix::stream_descriptor>(io_, started.standard_input.release());
  child.changed = std::make_unique<asio::steady_timer>(io_, asio::steady_timer::time_point::max());
  Frame frame = message::frame_of(message::Started{started.pid, monotonic_ns()}, id);
  co_await connection_->send(std::move(frame));
  spawn(relay_output(id, "stdout", std::move(started.standard_output)));
  spawn(relay_output(id, "stderr", std::move(started.standard_error)));
  spawn(report_exit(id));
}

void Agent::Conversation::feed_stdin(const Frame& request) {
  const auto found = children_.find(integer_field(request.message, "id"));
  if (found == children_.end()) { return; }
  auto& child = found->second;
  child.input += request.body;
  child.input_ends = child.input_ends || message::read<message::Stdin>(request).eof.value_or(false);
  if (!std::exchange(child.is_fed, true)) { spawn(write_input(found->first)); }
}

/// Not awaited by who serves requests: a process that reads nothing must not keep them from ending it.
asio::awaitable<void> Agent::Conversation::write_input(std::int64_t id) {
  auto& child = children_.at(id);
  error_code failed;  // a process that has ended or closed its input reports itself by its exit
  while (!failed && !child.input.empty()) {
    const auto piece = std::exchange(child.input, {});
    co_await asio::async_write(*child.standard_input, asio::buffer(piece),
                               asio::redirect_error(asio::use_awaitable, failed));
  }
  child.input.clear();
  child.is_fed = false;
  error_code ignored;
  if (child.input_ends) { child.standard_input->close(ignored); }
}

asio::awaitable<void> Agent::Conversation::relay_output(std::int64_t id, const char* stream_name,
                                                        UniqueFd output) {
  asio::posix::stream_descriptor pipe(io_, output.release());
  std::string chunk(output_chunk_bytes, '\0');
  auto& child = children_.at(id);
  while (!ended_) {
    error_code end;
    const std::size_t got =
        co_await pipe.async_read_some(asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, end));
    if (end) { break; }
    auto frame = message::frame_of(message::Output{stream_name, monotonic_ns()}, id, chunk.substr(0, got));
    ++child.held_up;
    co_await connection_->send(std::move(frame));
    --child.held_up;
  }
  --child.open_outputs;
  child.changed->cancel();
}

asio::awaitable<void> Agent::Conversation::report_exit(std::int64_t id) {
  auto& child = children_.at(id);
  error_code cancelled;
  while (!ended_ && !child.exit_status) {
    co_await child.changed->async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  asio::steady_timer grace(io_);
  const auto drained = [&]() -> asio::awaitable<void> {
    while (!ended_ && child.open_outputs > 0) {
      co_await child.changed->async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
  };
  constexpr int most_rounds = 240;  // two minutes: the longest for which a coordinator waits for its database
  int rounds = 0;
  do {
    grace.expires_after(output_grace);
    co_await (drained() || grace.async_wait(asio::redirect_error(asio::use_awaitable, cancelled)));
  } while (!ended_ && child.open_outputs > 0 && child.held_up > 0 && ++rounds < most_rounds);
  if (!ended_) {
    Frame frame = message::frame_of(message::Exit{*child.exit_status, monotonic_ns()}, id);
    co_await connection_->send(std::move(frame));
  }
}

asio::awaitable<void> Agent::Conversation::reap() {
  while (!ended_) {
    // As PID 1 or subreaper we also inherit orphans: wait for all, report ours.
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      for (auto& [id, child] : children_) {
        if (child.pid != pid || child.exit_status) { continue; }
        child.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        child.changed->cancel();
      }
    }
    co_await child_signals_.async_wait(asio::use_awaitable);
  }
}

// --- the node's network and counters

asio::awaitable<void> Agent::Conversation::reach(std::int64_t id, std::string address,
                                                 std::int64_t deadline_ms) {
  // Nobody listens on the discard port here: a refusal is an answer, and proves the path both ways.
  error_code bad_address;
  const asio::ip::tcp::endpoint peer(asio::ip::make_address(address, bad_address), 9);
  asio::ip::tcp::socket socket(io_);
  asio::steady_timer deadline(io_, std::chrono::milliseconds(deadline_ms));
  error_code result = asio::error::timed_out;
  error_code ignored;
  const auto connect = [&]() -> asio::awaitable<void> {
    error_code answer;
    co_await socket.async_connect(peer, asio::redirect_error(asio::use_awaitable, answer));
    if (answer != asio::error::operation_aborted) { result = answer; }
  };
  if (!bad_address) {
    co_await (connect() || deadline.async_wait(asio::redirect_error(asio::use_awaitable, ignored)));
  }
  const bool reached = !bad_address && (!result || result == asio::error::connection_refused);
  // g++ 12 destroys conditional temporaries inside a co_await expression twice, so the text has a name.
  const std::string why = reached ? "" : result.message();
  Frame answer = message::frame_of(message::Reached{reached, why}, id);
  co_await connection_->send(std::move(answer));
}

asio::awaitable<void> Agent::Conversation::sample_telemetry(std::int64_t period_ms, std::vector<int> cores) {
  const std::int64_t request = ++telemetry_requests_;
  asio::steady_timer timer(io_);
  while (!ended_ && request == telemetry_requests_) {
    auto frame = message::frame_of(message::Telemetry{monotonic_ns()});
    frame.message["values"] = read_telemetry("/", cores);
    co_await connection_->send(std::move(frame));
    timer.expires_after(std::chrono::milliseconds(std::max<std::int64_t>(period_ms, 100)));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// --- mpirun's remote shell

asio::awaitable<void> Agent::Conversation::accept_rsh() {
  while (!ended_) {
    auto socket = co_await rsh_acceptor_.async_accept(asio::use_awaitable);
    if (RshSocket::is_of_this_node(socket.native_handle())) {
      spawn(relay_rsh(std::make_shared<Connection>(io_, UniqueFd(socket.release()))));
    }
  }
}

asio::awaitable<void> Agent::Conversation::relay_rsh(RshClient socket) {
  struct Closing {
    RshClient socket;
    ~Closing() { socket->close(); }
  };
  const Closing at_the_end{socket};
  spawn(write_queued_of(socket));
  const Frame request = co_await socket->receive();
  auto wanted = message::read<message::Rsh>(request);
  if (!rsh_socket_.knows(std::exchange(wanted.secret, std::nullopt).value_or(""))) { co_return; }
  const std::int64_t id = next_rsh_id_++;
  rsh_clients_[id] = socket;
  Frame frame = message::frame_of(wanted, id);
  co_await connection_->send(std::move(frame));
  // The shim sends nothing more; the end of its stream means that mpirun has given up on it.
  bool gone = false;
  try {
    co_await socket->receive();
  } catch (const std::exception&) { gone = true; }
  rsh_clients_.erase(id);
  if (gone && !ended_) { co_await connection_->send(make_frame("rsh_closed", id)); }
}

}  // namespace virtrain::harness
