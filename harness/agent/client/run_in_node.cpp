#include "harness/agent/client/run_in_node.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <optional>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_output_bytes = 1U << 20;
constexpr std::size_t tail_bytes = 600;

/// Outlives the call where the process does: its events may come later.
struct Outcome {
  explicit Outcome(asio::io_context& io) : ended(io, asio::steady_timer::time_point::max()) {}
  std::string out, err;
  bool is_cut = false;  ///< `out`
  std::optional<int> exit_status;
  std::optional<std::string> lost;  ///< the node, and why
  asio::steady_timer ended;
};

ProcessEvents events_of(const std::shared_ptr<Outcome>& outcome) {
  ProcessEvents events;
  events.on_output = [outcome](OutputStream stream, std::string_view bytes, std::int64_t /*t_ns*/) {
    const bool is_out = stream == OutputStream::standard_output;
    auto& text = is_out ? outcome->out : outcome->err;
    const auto room = most_output_bytes - text.size();
    text.append(bytes.substr(0, room));
    if (is_out && bytes.size() > room) { outcome->is_cut = true; }
  };
  events.on_exit = [outcome](int status) {
    outcome->exit_status = status;
    outcome->ended.cancel();
  };
  events.on_lost = [outcome](const std::string& reason) {
    outcome->lost = reason;
    outcome->ended.cancel();
  };
  return events;
}

}  // namespace

asio::awaitable<std::string> run_in_node(asio::io_context& io, std::shared_ptr<AgentClient> agent,
                                         std::vector<std::string> argv, std::chrono::milliseconds deadline,
                                         NodeInput input) {
  const auto operation = fmt::format("run {} in {}", join(argv, " "), agent->node());
  const auto outcome = std::make_shared<Outcome>(io);
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = std::move(input.environment);
  const std::int64_t process = co_await agent->start(spec, events_of(outcome));
  co_await agent->write_stdin(process, std::move(input.standard_input), true);
  const FairDeadline fair(deadline, agent->waiting_time);
  boost::system::error_code woken;
  while (!outcome->exit_status && !outcome->lost && !woken && fair.left().count() > 0) {
    outcome->ended.expires_after(fair.left());
    co_await outcome->ended.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  if (!outcome->exit_status && outcome->lost) { throw Error(operation, ErrorCode::io, *outcome->lost); }
  if (!outcome->exit_status) {
    co_await agent->signal(process, SIGKILL);
    throw Error(operation, ErrorCode::trial_failed,
                fmt::format("it has not ended within {} s", deadline.count() / 1000));
  }
  if (*outcome->exit_status == 0 && outcome->is_cut) {
    throw Error(operation, ErrorCode::trial_failed, "it wrote more than " + format_size(most_output_bytes));
  }
  if (*outcome->exit_status == 0) { co_return std::move(outcome->out); }
  const auto words = std::string(trim(outcome->err.empty() ? outcome->out : outcome->err));
  throw Error(operation, ErrorCode::trial_failed,
              fmt::format("exit status {}: {}", *outcome->exit_status,
                          printable(words.substr(words.size() - std::min(tail_bytes, words.size())))));
}

}  // namespace virtrain::harness
