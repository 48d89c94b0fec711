#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/model/workload.h"
#include "harness/evidence/rank_output.h"
#include "harness/job/tenant_job.h"

namespace virtrain::harness {

/// One tenant's built-in trainer: all its ranks, which speak its protocol. A broken record, or one that the
/// plan has no place for, fails the job.
class TrainerJob final : public TenantJob {
 public:
  TrainerJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
             RankNetwork network, bool crowded = false, bool beside_others = false,
             const MpiDialect& mpi = {});

  /// Starts the trainer, directly or by mpirun in the first node.
  asio::awaitable<void> launch(const std::string& program, std::chrono::seconds timeout) override;
  asio::awaitable<void> wait_for_hello(std::chrono::milliseconds deadline) override;
  asio::awaitable<void> wait_for_ready(std::chrono::milliseconds deadline) override;
  asio::awaitable<void> go() override;
  /// Until every rank has taken its counted steps; later ones may follow.
  asio::awaitable<void> wait_for_counted_steps(std::chrono::milliseconds deadline) override;
  /// Until every rank has sent its result and the processes have ended well.
  asio::awaitable<void> wait_for_results(std::chrono::milliseconds deadline) override;
  std::pair<std::int64_t, std::int64_t> counted_interval() const override;

  /// The CUDA trainer's flag; set before launch().
  FusionRule fusion = FusionRule::highest;
  /// Told at each record, after the state above holds it.
  std::function<void(std::int64_t rank, const RankRecord& record)> on_record;

 private:
  void take_line(const Process& process, OutputStream stream, const RankLine& line,
                 std::int64_t t_ns) override;
  void take_unfinished(const Process& process, OutputStream stream, const RankLine& line) override;
  std::string ended_early() const override;
  bool has_ended() const { return processes_.front()->exit_status.has_value(); }
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
  template <typename Said>
  bool every_rank(std::optional<Said> RankState::*record) const;

  bool beside_others_;  ///< tenants that train at the same time
};

}  // namespace virtrain::harness
