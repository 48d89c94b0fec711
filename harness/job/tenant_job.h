#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/agent/client/agent_client.h"
#include "harness/agent/client/node_budget.h"
#include "harness/evidence/nccl_transports.h"
#include "harness/evidence/rank_output.h"
#include "harness/evidence/workload_records.h"
#include "harness/job/rank_command.h"
#include "harness/plan/plan.h"

namespace virtrain::harness {

/// Waits for the state of one job to change. Whoever changes it calls wake().
class Waiter {
 public:
  explicit Waiter(boost::asio::io_context& io);

  void wake() { changed_.cancel(); }
  /// Until `done` returns true or throws; false: the deadline has passed.
  boost::asio::awaitable<bool> until(std::function<bool()> done, FairDeadline deadline);

 private:
  boost::asio::io_context& io_;
  boost::asio::steady_timer changed_;
};

/// A node as a job sees it: its place in the plan and the agent that speaks for it.
struct JobNode {
  std::string hostname;
  std::shared_ptr<AgentClient> agent;
  std::map<std::string, std::string> environment = {};  ///< of its ranks, beside the workload's
  std::string load_file = {};                           ///< see vmctl::NodeFacts
  std::string temporary_folder = {};                    ///< likewise
  std::string interface = {};                           ///< likewise
  std::string address = {};                             ///< likewise
  std::int64_t placed = 1;         ///< planned nodes that it stands for, see vmctl::NodeKind::shared_slice
  bool has_own_name = true;        ///< the node's hostname is `hostname`; else its host's
  std::string reported_name = {};  ///< its hostname as its agent says
  std::vector<std::string> entry = {};  ///< words before a command that is not ours
};

/// The processes of one tenant over all its nodes, from start to result: the built-in trainer's (TrainerJob),
/// or a command's of the user's own (CommandJob). Any failure (a node lost, a process that ends early, a
/// flood) is kept, ends the job everywhere, and is thrown by every wait; what the processes say after it is
/// not looked at.
class TenantJob : public std::enable_shared_from_this<TenantJob> {
 public:
  virtual ~TenantJob() = default;
  TenantJob(const TenantJob&) = delete;
  TenantJob& operator=(const TenantJob&) = delete;

  /// Checks the paths between the nodes, and starts what has to be ready at the barrier. `program`: the
  /// trainer.
  virtual asio::awaitable<void> launch(const std::string& program, std::chrono::seconds timeout) = 0;
  /// Runs another program of ranks in place of the trainer, before launch(), and returns what they print.
  /// Throws Error(trial_failed) as run_in_node() does.
  asio::awaitable<std::string> measure(std::vector<std::string> program, std::chrono::seconds timeout);
  /// Until its processes have said what they are, and stand at the barrier; a job that knows none is there.
  virtual asio::awaitable<void> wait_for_hello(std::chrono::milliseconds /*deadline*/) { co_return; }
  virtual asio::awaitable<void> wait_for_ready(std::chrono::milliseconds /*deadline*/) { co_return; }
  /// Releases the barrier; the work begins.
  virtual asio::awaitable<void> go() = 0;
  /// Until all that counts is done; more may follow.
  virtual asio::awaitable<void> wait_for_counted_steps(std::chrono::milliseconds deadline) = 0;
  /// Until every process has ended well, with its results.
  virtual asio::awaitable<void> wait_for_results(std::chrono::milliseconds deadline) = 0;
  /// Kills what is left on all nodes that still answer; returns how many processes that were.
  asio::awaitable<std::int64_t> sweep();

  void fail(const std::string& reason);
  const std::optional<std::string>& failure() const { return failure_; }

  /// Ranks that speak the trainer's protocol; none of a command.
  const std::vector<RankState>& ranks() const { return ranks_; }
  /// From the first to the last of what counts, on the coordinator's clock.
  virtual std::pair<std::int64_t, std::int64_t> counted_interval() const = 0;
  const TenantPlacement& placement() const { return placement_; }
  /// When go() released the ranks; 0 before.
  std::int64_t released_ns() const { return released_ns_; }
  /// Transport Open MPI reported for each pair (from node, to node), for example "tcp".
  const std::map<std::pair<std::string, std::string>, std::string>& transports() const { return transports_; }
  /// Transports that NCCL reported, which carries the gradients of backend cuda.
  const NcclTransports& nccl_transports() const { return nccl_transports_; }
  /// Last lines that were no records, for error messages.
  std::string last_words() const;

 protected:
  /// Behind a process's exit status that SIGKILL makes.
  static constexpr const char* killed_hint = " (killed, probably out of memory: raise guest.memory)";

  /// A process that was started in a node.
  struct Process {
    std::size_t node = 0;
    std::int64_t planned = 0;  ///< of the planned nodes that its node stands for, the one that it works for
    RankOutputSplitter out, err;
    std::int64_t id = 0;
    std::optional<int> exit_status = {};
  };

  TenantJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
            RankNetwork network, bool crowded, const MpiDialect& mpi);

  /// A line of one of the processes; what it throws fails the job.
  virtual void take_line(const Process& process, OutputStream stream, const RankLine& line,
                         std::int64_t t_ns) = 0;
  /// A line that a process has not finished at its end.
  virtual void take_unfinished(const Process& process, OutputStream stream, const RankLine& line);
  /// Why a process's end fails the job before it is done; empty: it does not.
  virtual std::string ended_early() const { return {}; }
  /// The environment of processes in one of the nodes, see Process.
  virtual std::map<std::string, std::string> environment_of(std::size_t node, std::int64_t planned) const;

  asio::awaitable<void> check_paths();
  /// Starts a process in a node; take_line() has its lines from now on.
  asio::awaitable<void> start(std::size_t node, std::vector<std::string> argv, std::int64_t planned = 0);
  /// mpirun's command line for a program of ranks, or the program itself; serves its remote shell.
  std::vector<std::string> started_by_mpirun(std::vector<std::string> program, std::chrono::seconds timeout);
  /// Whether it was reached within the deadline; throws what failed the job.
  asio::awaitable<bool> reaches(const char* what, std::function<bool()> reached, FairDeadline deadline);
  /// The same, and Error(timeout) where it was not.
  asio::awaitable<void> wait_until(const char* what, std::function<bool()> reached, FairDeadline deadline);
  /// Waiting time of the node that has waited longest.
  WaitingTime waiting_time() const;
  /// Keeps a line that is no record: transports, last words. Error(protocol) beyond `most_bytes` of them.
  void take_text(const RankLine& line, std::size_t most_bytes);
  std::int64_t ranks_of(const JobNode& node) const { return node.placed * placement_.ranks_per_node; }
  std::size_t node_of(std::int64_t rank) const;
  /// `words` and the last lines; empty where there are none.
  std::string behind(const char* words) const;
  void wake() { waiter_.wake(); }

  const char* kind_;  ///< in messages: the trainer, or the command
  const TenantPlacement& placement_;
  std::vector<JobNode> nodes_;
  RankNetwork network_;
  bool crowded_;
  std::vector<RankState> ranks_ = {};
  std::vector<std::unique_ptr<Process>> processes_ = {};
  std::int64_t released_ns_ = 0;

 private:
  /// By the name that mpirun has of it.
  std::optional<std::size_t> index_of(std::string_view name) const;
  /// By any of its names, as Open MPI says it.
  std::optional<std::size_t> index_of_any(std::string_view name) const;
  void take_output(Process& process, OutputStream stream, std::string_view bytes, std::int64_t t_ns);
  /// Takes a process's output that has no end of line before its own end.
  void take_last_words(Process& process);
  void note_transport(const RankLine& line);
  void serve_remote_shell(std::size_t node);
  asio::awaitable<void> run_remote_shell(std::size_t from, std::int64_t shell, std::size_t target,
                                         std::string command);
  void relay_output(AgentClient& asking, std::int64_t shell, OutputStream stream, std::string_view bytes);
  void spawn(asio::awaitable<void> task);

  asio::io_context& io_;
  std::vector<MpiNode> mpi_nodes_;  ///< as mpirun is told of the nodes
  MpiDialect mpi_;
  std::deque<std::string> last_lines_;
  std::size_t other_bytes_ = 0, relayed_bytes_ = 0;
  std::map<std::pair<std::string, std::string>, std::string> transports_;
  NcclTransports nccl_transports_;
  std::optional<std::string> failure_;
  Waiter waiter_;
  /// Remote shells by (node, shell id): where the daemon runs and its process id there.
  std::map<std::pair<std::size_t, std::int64_t>, std::pair<std::size_t, std::int64_t>> shells_;
};

}  // namespace virtrain::harness
