#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "harness/agent/child_process.h"
#include "harness/agent/client/agent_reports.h"
#include "harness/agent/client/node_budget.h"
#include "harness/agent/connection.h"
#include "vmctl/api/pci.h"

namespace virtrain::harness {

/// Node clock minus coordinator clock, from the ping with the shortest round trip: half of that is the
/// uncertainty.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
  std::optional<std::int64_t> wall_offset_ns = {};  ///< of the clocks on the wall; where the agent tells it
};

enum class OutputStream { standard_output, standard_error };

/// Reports of a started process. Times are on the coordinator's clock.
struct ProcessEvents {
  std::function<void(OutputStream, std::string_view bytes, std::int64_t t_ns)> on_output;
  std::function<void(int exit_status)> on_exit;
  std::function<void(const std::string& reason)> on_lost = {};  ///< of the conversation: nothing more comes
};

/// The coordinator's side of one conversation with one agent. Everything runs on the io_context's one thread,
/// and everything the agent sends is checked, and counted against a NodeBudget: a breach of the protocol, a
/// flood, silence for longer than `silence_limit`, or the end of the stream ends the conversation, fails
/// whoever waits, and is told to `on_lost` once.
class AgentClient : public std::enable_shared_from_this<AgentClient> {
 public:
  static constexpr std::chrono::seconds ping_period{1};
  static constexpr std::chrono::seconds silence_limit{12};
  /// From what the node's clock says of its own messages to ours; what is further off is made up.
  static constexpr std::chrono::hours most_clock_distance{1};

  AgentClient(asio::io_context& io, std::string node, UniqueFd channel);

  /// Waits for the agent, checks that it answers now (a nonce), measures its clock; returns what it says of
  /// its node.
  asio::awaitable<NodeReport> handshake(std::chrono::milliseconds deadline);

  /// Starts a process; returns its id for signal() and write_stdin(). Throws Error if it cannot start.
  asio::awaitable<std::int64_t> start(const ProcessSpec& spec, ProcessEvents events);
  asio::awaitable<void> write_stdin(std::int64_t process, std::string bytes, bool end_of_file);
  asio::awaitable<void> signal(std::int64_t process, int signal_number);
  /// Kills every process the agent has started, and their children; returns how many were left.
  asio::awaitable<std::int64_t> sweep();
  asio::awaitable<std::string> read_file(std::string path);
  asio::awaitable<void> write_file(std::string path, std::string content, int mode = 0644);
  /// The node's PCI functions, as far as pci_report.h tells of them.
  asio::awaitable<std::vector<vmctl::PciFunction>> pci_functions();
  /// The node's hardware and networks, of one that exists already.
  asio::awaitable<MachineReport> machine();
  /// Whether `address` answers this node within the deadline; if not, why.
  asio::awaitable<std::optional<std::string>> unreachable(std::string address,
                                                          std::chrono::milliseconds deadline);
  /// Measures the node's clock again; clock() and all later times use the new offset.
  asio::awaitable<void> synchronize_clock(int pings);
  asio::awaitable<void> start_telemetry(std::chrono::milliseconds period, std::string cores);

  /// mpirun's launcher on this node wants `command` run on `host`; answer with rsh_output() and rsh_exit(),
  /// which do not wait: the conversation is lost where its agent takes too little of them.
  std::function<void(std::int64_t shell, std::string host, std::string command)> on_rsh;
  std::function<void(std::int64_t shell)> on_rsh_closed;
  std::function<void(const std::map<std::string, double>& readings, std::int64_t t_ns)> on_telemetry;
  std::function<void(const std::string& reason)> on_lost;

  /// Whether it is told once a second that somebody is there, whatever it says itself.
  bool hears_of_us = false;
  /// Waiting time of its node, as this host sees it; deadlines and the limit of silence leave this time out.
  WaitingTime waiting_time;

  void rsh_output(std::int64_t shell, OutputStream stream, std::string_view bytes);
  void rsh_exit(std::int64_t shell, int status, std::string words);

  /// Ends the conversation from this side; on_lost is not told.
  void close();
  bool is_lost() const { return lost_.has_value(); }
  const std::string& node() const { return node_; }
  const ClockOffset& clock() const { return clock_; }
  /// A time of the node's clock on the coordinator's.
  std::int64_t to_our_clock(std::int64_t node_t_ns) const {
    // Untrusted on both sides of the minus, so without signed overflow.
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(node_t_ns) -
                                     static_cast<std::uint64_t>(clock_.offset_ns));
  }
  /// As to_our_clock(), of something that has just been said; Error(protocol) beyond `most_clock_distance`.
  std::int64_t time_of_message(std::int64_t node_t_ns) const;

 private:
  struct Pending {
    explicit Pending(asio::io_context& io) : done(io, asio::steady_timer::time_point::max()) {}
    asio::steady_timer done;
    std::optional<Frame> reply;
  };

  asio::awaitable<void> receive_frames();
  asio::awaitable<void> watch_silence();
  /// How long nothing has come although the node could have run.
  std::chrono::nanoseconds silence();
  void dispatch(Frame frame);
  void lose(const std::string& reason);
  void wake_all();
  asio::awaitable<Frame> request(Frame frame, std::chrono::milliseconds deadline);
  asio::awaitable<void> send(Frame frame);
  void post(const Frame& frame);

  asio::io_context& io_;
  std::string node_;
  std::shared_ptr<Connection> connection_;
  NodeBudget budget_;
  std::map<std::int64_t, std::shared_ptr<Pending>> pending_;
  std::map<std::int64_t, ProcessEvents> processes_;
  std::int64_t next_id_ = 1;
  ClockOffset clock_;
  bool announced_ = false;
  asio::steady_timer announcement_, silence_watch_;
  std::int64_t last_heard_ns_ = 0;
  std::chrono::nanoseconds waited_when_heard_{};
  std::optional<std::string> lost_;
  bool closed_ = false;
};

}  // namespace virtrain::harness
