#include "harness/agent/client/agent_client.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "harness/agent/client/agent_reports.h"
#include "harness/agent/machine_report.h"
#include "harness/agent/messages.h"

namespace virtrain::harness {
namespace {

using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds request_deadline{15'000};
/// The most that a Linux machine can have, whatever its settings.
constexpr std::int64_t most_processes = 1 << 22;

std::string make_nonce() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

/// An agent's words on a failure, to be shown.
std::string words_of_agent(const std::optional<std::string>& message) {
  constexpr std::size_t most_bytes = 1000;
  return printable(message.value_or(""), most_bytes);
}

/// The stream of an output by its word.
OutputStream stream_of(const std::string& word) {
  return word == "stderr" ? OutputStream::standard_error : OutputStream::standard_output;
}

}  // namespace

AgentClient::AgentClient(asio::io_context& io, std::string node, UniqueFd channel)
    : io_(io),
      node_(std::move(node)),
      connection_(std::make_shared<Connection>(io, std::move(channel))),
      announcement_(io, asio::steady_timer::time_point::max()),
      silence_watch_(io) {}

asio::awaitable<NodeReport> AgentClient::handshake(milliseconds deadline) {
  last_heard_ns_ = monotonic_ns();
  // Each task keeps this object and the connection alive until it has seen the end.
  const auto keep = [self = shared_from_this()](std::exception_ptr) {};
  asio::co_spawn(io_, receive_frames(), keep);
  asio::co_spawn(io_, connection_->write_queued(), keep);

  const std::string operation = "reach the agent of " + node_;
  const FairDeadline fair(deadline, waiting_time);
  error_code woken;
  while (!announced_ && !lost_) {
    announcement_.expires_after(fair.left());
    co_await announcement_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (!woken && !announced_ && fair.left().count() <= 0) {
      throw Error(operation, ErrorCode::timeout,
                  fmt::format("no message from it within {} s", deadline.count() / 1000));
    }
    if (woken && !announced_ && !lost_) { throw Error(operation, ErrorCode::interrupted, "stopped"); }
  }
  if (lost_) { throw Error(operation, ErrorCode::io, *lost_); }

  // An announcement may belong to an earlier conversation: only an answer to our nonce proves a live agent.
  const message::Hello question{make_nonce()};
  const Frame hello = co_await request(message::frame_of(question), deadline);
  if (message::read<message::Hello>(hello).nonce != question.nonce) {
    throw Error(operation, ErrorCode::protocol, "nonce mismatch in the reply to hello");
  }
  co_await synchronize_clock(8);
  asio::co_spawn(io_, watch_silence(), keep);
  const auto& facts = member(hello.message, "facts");
  if (!facts.is_object()) {
    throw Error(operation, ErrorCode::protocol, "its reply to hello does not describe the node");
  }
  co_return checked_facts(facts);
}

asio::awaitable<void> AgentClient::receive_frames() {
  std::string reason;
  try {
    while (true) {
      Frame frame = co_await connection_->receive();
      last_heard_ns_ = monotonic_ns();
      budget_.take(string_field(frame.message, "type"), frame.wire_bytes, last_heard_ns_);
      dispatch(std::move(frame));
    }
  } catch (const boost::system::system_error& error) {
    // However a socket tells it: at the end, with unread bytes on the way, or while we were writing.
    const auto& code = error.code();
    const bool gone = code == asio::error::eof || code == asio::error::connection_reset ||
                      code == asio::error::broken_pipe || code == asio::error::operation_aborted;
    reason = gone ? "its channel closed (the node ended)" : code.message();
  } catch (const Error& error) {
    reason = std::string("it broke the protocol: ") + error.what();
  } catch (const std::exception& error) {
    reason = std::string("what it sent could not be handled: ") + error.what();
  }
  lose(reason);
}

asio::awaitable<void> AgentClient::watch_silence() {
  auto& timer = silence_watch_;
  error_code woken;
  while (!lost_ && !closed_) {
    timer.expires_after(ping_period);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (lost_ || closed_) { co_return; }
    // Where this process itself stood still, what the agent said meanwhile is yet to be read.
    const std::chrono::nanoseconds late = std::chrono::steady_clock::now() - timer.expiry();
    if (late > ping_period) { last_heard_ns_ = std::min(monotonic_ns(), last_heard_ns_ + late.count()); }
    const auto silent = silence();
    if (silent > silence_limit) {
      lose(fmt::format("the agent has been silent for {:.0f} s",
                       std::chrono::duration<double>(silent).count()));
    } else if (hears_of_us || silent > ping_period) {
      // Not awaited: where the agent takes nothing any more, sending would wait for ever. The pong has nobody
      // waiting; hearing it is enough.
      post(make_frame("ping", next_id_++));
    }
  }
}

std::chrono::nanoseconds AgentClient::silence() {
  const std::chrono::nanoseconds elapsed(monotonic_ns() - last_heard_ns_);
  const auto waited = waiting_time ? waiting_time() : std::chrono::nanoseconds(0);
  if (elapsed <= 2 * ping_period) { waited_when_heard_ = waited; }
  return usable_time(elapsed, waited - waited_when_heard_);
}

void AgentClient::lose(const std::string& reason) {
  if (lost_ || closed_) { return; }
  lost_ = reason;
  wake_all();
  if (on_lost) { on_lost(reason); }
}

void AgentClient::close() {
  if (!lost_) { lost_ = "closed by the coordinator"; }
  closed_ = true;
  wake_all();
}

void AgentClient::wake_all() {
  connection_->close();
  announcement_.cancel();
  silence_watch_.cancel();
  for (auto& [id, pending] : pending_) { pending->done.cancel(); }
  auto processes = std::exchange(processes_, {});
  for (const auto& [id, process] : processes) {
    if (process.on_lost) { process.on_lost(*lost_); }
  }
  // Whom they tell holds this client: they are let go of, but not while one of them may be what calls.
  asio::post(io_, [ended = std::move(processes)] {});
}

void AgentClient::dispatch(Frame frame) {
  const std::string type = string_field(frame.message, "type");
  const std::int64_t id = integer_field(frame.message, "id");
  if (type == "announce") {
    announced_ = true;
    announcement_.cancel();
  } else if (type == message::Output::type) {
    const auto process = processes_.find(id);
    if (process != processes_.end() && process->second.on_output) {
      const auto output = message::read<message::Output>(frame);
      process->second.on_output(stream_of(output.stream), frame.body, time_of_message(output.t_ns));
    }
  } else if (type == message::Exit::type) {
    const auto process = processes_.find(id);
    if (process == processes_.end()) { return; }
    const auto exit = message::read<message::Exit>(frame);
    const auto events = std::move(process->second);
    processes_.erase(process);
    if (events.on_exit) { events.on_exit(static_cast<int>(exit.status)); }
  } else if (type == message::Telemetry::type) {
    if (on_telemetry) {
      on_telemetry(checked_readings(frame.message.value("values", nlohmann::json::object())),
                   time_of_message(message::read<message::Telemetry>(frame).t_ns));
    }
  } else if (type == message::Rsh::type) {
    if (on_rsh) {
      auto wanted = message::read<message::Rsh>(frame);
      on_rsh(id, std::move(wanted.host), std::move(wanted.command));
    }
  } else if (type == "rsh_closed") {
    if (on_rsh_closed) { on_rsh_closed(id); }
  } else if (const auto pending = pending_.find(id); pending != pending_.end() && !pending->second->reply) {
    pending->second->reply = std::move(frame);
    pending->second->done.cancel();
  }
}

asio::awaitable<void> AgentClient::send(Frame frame) {
  if (lost_) { throw Error("talk to the agent of " + node_, ErrorCode::io, *lost_); }
  co_await connection_->send(std::move(frame));
}

void AgentClient::post(const Frame& frame) {
  if (lost_) { return; }
  if (!connection_->post(frame)) {
    lose(fmt::format("it reads too little: more than {} wait for it", format_size(max_posted_bytes)));
  }
}

std::int64_t AgentClient::time_of_message(std::int64_t node_t_ns) const {
  const auto t_ns = to_our_clock(node_t_ns);
  const auto most_ns = std::chrono::nanoseconds(most_clock_distance).count();
  const auto now_ns = monotonic_ns();
  if (t_ns < now_ns - most_ns || t_ns > now_ns + most_ns) {
    throw Error("read a time of " + node_, ErrorCode::protocol,
                fmt::format("its clock says {} ns, which is more than {} h from now", node_t_ns,
                            most_clock_distance.count()));
  }
  return t_ns;
}

asio::awaitable<Frame> AgentClient::request(Frame frame, milliseconds deadline) {
  const std::int64_t id = next_id_++;
  const std::string what =
      fmt::format("ask the agent of {} to {}", node_, string_field(frame.message, "type"));
  frame.message["id"] = id;
  auto pending = std::make_shared<Pending>(io_);
  pending_[id] = pending;
  const FairDeadline fair(deadline, waiting_time);
  try {
    co_await send(std::move(frame));
  } catch (...) {
    pending_.erase(id);
    throw;
  }
  error_code woken;
  while (!pending->reply && !lost_ && !woken && fair.left().count() > 0) {
    pending->done.expires_after(fair.left());
    co_await pending->done.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  pending_.erase(id);
  if (!pending->reply) {
    if (lost_) { throw Error(what, ErrorCode::io, *lost_); }
    if (woken) { throw Error(what, ErrorCode::interrupted, "stopped"); }
    throw Error(what, ErrorCode::timeout, fmt::format("no answer within {} ms", deadline.count()));
  }
  Frame reply = std::move(*pending->reply);
  if (string_field(reply.message, "type") == message::Failed::type) {
    throw Error(what, ErrorCode::io, words_of_agent(message::read<message::Failed>(reply).message));
  }
  co_return reply;
}

asio::awaitable<std::int64_t> AgentClient::start(const ProcessSpec& spec, ProcessEvents events) {
  Frame frame = message::frame_of(message::Start{spec.argv, spec.environment});
  const std::int64_t id = next_id_;  // request() takes this one
  processes_[id] = std::move(events);
  try {
    co_await request(std::move(frame), request_deadline);
  } catch (...) {
    processes_.erase(id);
    throw;
  }
  co_return id;
}

asio::awaitable<void> AgentClient::write_stdin(std::int64_t process, std::string bytes, bool end_of_file) {
  Frame frame = message::frame_of(message::Stdin{end_of_file}, process, std::move(bytes));
  co_await send(std::move(frame));
}

asio::awaitable<void> AgentClient::signal(std::int64_t process, int signal_number) {
  Frame frame = message::frame_of(message::Signal{signal_number}, process);
  co_await send(std::move(frame));
}

asio::awaitable<std::int64_t> AgentClient::sweep() {
  const Frame reply = co_await request(make_frame("sweep", 0), request_deadline);
  const auto count = message::read<message::Swept>(reply).count;
  if (count < 0 || count > most_processes) {
    throw Error("ask the agent of " + node_ + " to sweep", ErrorCode::protocol,
                fmt::format("it claims to have ended {} processes", count));
  }
  co_return count;
}

asio::awaitable<std::string> AgentClient::read_file(std::string path) {
  Frame frame = message::frame_of(message::ReadFile{std::move(path)});
  Frame reply = co_await request(std::move(frame), request_deadline);
  co_return std::move(reply.body);
}

asio::awaitable<std::vector<vmctl::PciFunction>> AgentClient::pci_functions() {
  const Frame reply = co_await request(make_frame("pci_functions", 0), request_deadline);
  co_return parse_pci_report(reply.body);
}

asio::awaitable<void> AgentClient::write_file(std::string path, std::string content, int mode) {
  const message::WriteFile file{std::move(path), mode};
  Frame frame = message::frame_of(file, 0, std::move(content));
  co_await request(std::move(frame), request_deadline);
}

asio::awaitable<MachineReport> AgentClient::machine() {
  const Frame answer = co_await request(make_frame(message::Machine::type, 0), request_deadline);
  co_return checked_machine(message::read<message::Machine>(answer));
}

asio::awaitable<std::optional<std::string>> AgentClient::unreachable(std::string address,
                                                                     milliseconds deadline) {
  Frame frame = message::frame_of(message::Reach{std::move(address), deadline.count()});
  const Frame reply = co_await request(std::move(frame), deadline + request_deadline);
  const auto answer = message::read<message::Reached>(reply);
  if (answer.reached.value_or(false)) { co_return std::nullopt; }
  const auto why = words_of_agent(answer.message);
  co_return why.empty() ? "no answer" : why;
}

namespace {

/// Subtracts times of which one is untrusted, so without signed overflow.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

}  // namespace

asio::awaitable<void> AgentClient::synchronize_clock(int pings) {
  ClockOffset best{0, INT64_MAX};
  for (int i = 0; i < pings; ++i) {
    const std::int64_t sent_ns = monotonic_ns();
    const Frame reply = co_await request(make_frame("ping", 0), request_deadline);
    const std::int64_t received_ns = monotonic_ns();
    const std::int64_t half_trip_ns = (received_ns - sent_ns) / 2;
    const auto pong = message::read<message::Pong>(reply);
    if (half_trip_ns >= best.uncertainty_ns) { continue; }
    best = {difference(pong.t_ns, sent_ns + half_trip_ns), half_trip_ns, std::nullopt};
    if (pong.wall_ns) { best.wall_offset_ns = difference(*pong.wall_ns, wall_ns() - half_trip_ns); }
  }
  clock_ = best;
}

asio::awaitable<void> AgentClient::start_telemetry(milliseconds period, std::string cores) {
  Frame frame = message::frame_of(message::SampleTelemetry{period.count(), std::move(cores)});
  co_await send(std::move(frame));
}

void AgentClient::rsh_output(std::int64_t shell, OutputStream stream, std::string_view bytes) {
  const message::RshOutput output{stream == OutputStream::standard_error ? "stderr" : "stdout"};
  post(message::frame_of(output, shell, std::string(bytes)));
}

void AgentClient::rsh_exit(std::int64_t shell, int status, std::string words) {
  post(message::frame_of(message::RshExit{status}, shell, std::move(words)));
}

}  // namespace virtrain::harness
