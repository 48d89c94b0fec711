#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"
#include "harness/evidence/nccl_transports.h"
#include "harness/evidence/rank_state.h"
#include "harness/evidence/workload_records.h"
#include "harness/job/rank_command.h"
#include "harness/job/waiter.h"
#include "harness/plan/plan.h"

namespace virtrain::harness {

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
};

/// One tenant's trainer: all its ranks over all its nodes, from start to result. Any failure (a node lost, a
/// process that ends early, a broken record, one that the plan has no place for, a flood) is kept, ends the
/// job everywhere, and is thrown by every wait; what the ranks say after it is not looked at.
class TenantJob : public std::enable_shared_from_this<TenantJob> {
 public:
  TenantJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
            RankNetwork network, bool crowded = false, bool beside_others = false,
            const MpiDialect& mpi = {});

  /// Checks the paths between the nodes, then starts the trainer, directly or by mpirun in the first node.
  asio::awaitable<void> launch(const std::string& trainer_program, std::chrono::seconds timeout);
  /// Runs another program of ranks in place of the trainer, before launch(), and returns what they print.
  /// Throws Error(trial_failed) as run_in_node() does.
  asio::awaitable<std::string> measure(std::vector<std::string> program, std::chrono::seconds timeout);
  asio::awaitable<void> wait_for_hello(std::chrono::milliseconds deadline);
  asio::awaitable<void> wait_for_ready(std::chrono::milliseconds deadline);
  /// Releases the barrier; training begins.
  asio::awaitable<void> go();
  /// Until every rank has taken its counted steps; later ones may follow.
  asio::awaitable<void> wait_for_counted_steps(std::chrono::milliseconds deadline);
  /// Until every rank has sent its result and the processes have ended well.
  asio::awaitable<void> wait_for_results(std::chrono::milliseconds deadline);
  /// Kills what is left on all nodes that still answer; returns how many processes that were.
  asio::awaitable<std::int64_t> sweep();

  void fail(const std::string& reason);
  const std::optional<std::string>& failure() const { return failure_; }

  const std::vector<RankState>& ranks() const { return ranks_; }
  const TenantPlacement& placement() const { return placement_; }
  /// When go() released the ranks; 0 before.
  std::int64_t released_ns() const { return released_ns_; }
  /// Transport Open MPI reported for each pair (from node, to node), for example "tcp".
  const std::map<std::pair<std::string, std::string>, std::string>& transports() const { return transports_; }
  /// Transports that NCCL reported, which carries the gradients of backend cuda.
  const NcclTransports& nccl_transports() const { return nccl_transports_; }
  /// Last lines that were no records, for error messages.
  std::string last_words() const;

  /// Told at each record, after the state above holds it.
  std::function<void(std::int64_t rank, const RankRecord& record)> on_record;

 private:
  std::int64_t ranks_of(const JobNode& node) const { return node.placed * placement_.ranks_per_node; }
  std::size_t node_of(std::int64_t rank) const;
  /// By the name that mpirun has of it.
  std::optional<std::size_t> index_of(std::string_view name) const;
  /// By any of its names, as Open MPI says it.
  std::optional<std::size_t> index_of_any(std::string_view name) const;
  std::map<std::string, std::string> environment_on(const JobNode& node) const;
  asio::awaitable<void> check_paths();
  asio::awaitable<void> wait_until(const char* what, std::function<bool()> reached, FairDeadline deadline);
  /// Waiting time of the node that has waited longest.
  WaitingTime waiting_time() const;
  void take_output(OutputStream stream, std::string_view bytes);
  /// Takes a process's output that has no end of line before its own end.
  void take_last_words();
  void take_line(OutputStream stream, const RankLine& line);
  void take_text(const RankLine& line);
  void take_record(const RankRecord& record, std::size_t bytes);
  template <typename Record>
  void take_once(std::optional<Record>& kept, std::int64_t rank, const Record& said) const;
  /// A window that ends at `t_ns` of the node's clock.
  RankState::Window begin_window(RankState& state, std::int64_t t_ns, double seconds) const;
  void take(RankState& state, std::int64_t rank, const protocol::Warmup& step);
  void take(RankState& state, std::int64_t rank, const protocol::Later& step);
  void take(RankState& state, std::int64_t rank, const protocol::Sample& sample);
  void take(RankState& state, std::int64_t rank, const protocol::Hello& said);
  void take(RankState& state, std::int64_t rank, const protocol::Ready& said);
  void take(RankState& state, std::int64_t rank, const protocol::Result& said);
  void take(RankState& state, std::int64_t rank, const protocol::Failure& said);
  void take(RankState& /*state*/, std::int64_t /*rank*/, std::monostate /*unknown*/) {}
  void check_planned(const RankState& state, const RankState::Window& sample) const;
  void note_transport(const RankLine& line);
  template <typename Said>
  bool every_rank(std::optional<Said> RankState::*record) const;

  /// mpirun's command line for a program of ranks, or the program itself; serves its remote shell.
  std::vector<std::string> started_by_mpirun(std::vector<std::string> program, std::chrono::seconds timeout);
  void serve_remote_shell(std::size_t node);
  asio::awaitable<void> run_remote_shell(std::size_t from, std::int64_t shell, std::size_t target,
                                         std::string command);
  void relay_output(AgentClient& asking, std::int64_t shell, OutputStream stream, std::string_view bytes);
  void spawn(asio::awaitable<void> task);

  asio::io_context& io_;
  bool crowded_;
  bool beside_others_;  ///< tenants that train at the same time
  const TenantPlacement& placement_;
  std::vector<JobNode> nodes_;
  std::vector<MpiNode> mpi_nodes_;  ///< likewise
  RankNetwork network_;
  MpiDialect mpi_;
  std::vector<RankState> ranks_;
  RankOutputSplitter out_, err_;
  std::deque<std::string> last_lines_;
  std::size_t other_bytes_ = 0, relayed_bytes_ = 0;
  std::int64_t released_ns_ = 0;
  std::map<std::pair<std::string, std::string>, std::string> transports_;
  NcclTransports nccl_transports_;
  std::int64_t process_ = 0;
  std::optional<int> exit_status_;
  std::optional<std::string> failure_;
  Waiter waiter_;
  /// Remote shells by (node, shell id): where the daemon runs and its process id there.
  std::map<std::pair<std::size_t, std::int64_t>, std::pair<std::size_t, std::int64_t>> shells_;
};

}  // namespace virtrain::harness
