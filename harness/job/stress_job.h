#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/agent/client/agent_client.h"
#include "harness/evidence/aggressor.h"
#include "harness/evidence/workload_records.h"
#include "harness/job/tenant_job.h"

namespace virtrain::harness {

/// The processes of virtrain-stress in the nodes of a neighbour. One that ends before it is told to is a
/// failure, as is a node that is lost; on_failure is called once.
class StressJob : public std::enable_shared_from_this<StressJob> {
 public:
  StressJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
            const MpiDialect& mpi);

  /// Starts the stressors; they are ready and wait.
  asio::awaitable<void> launch(const std::string& program, std::chrono::milliseconds deadline);
  /// Lets them work until each has been at its level for some seconds. Error(trial_failed) with what was
  /// reached where one does not get there.
  asio::awaitable<void> reach_level(std::chrono::milliseconds deadline);
  /// Tells them to stop and waits for their ends.
  asio::awaitable<void> stop(std::chrono::milliseconds deadline);

  /// Work of each process between these times, and before.
  std::vector<AggressorEvidence> evidence(std::int64_t begin_ns, std::int64_t end_ns) const;

  std::function<void(const std::string& words)> on_failure;

 private:
  struct Stressor {
    std::string kind;
    std::shared_ptr<AgentClient> agent;
    bool judged = true;  ///< not the receiving side of net
    std::int64_t process = 0;
    std::int64_t began_ns = 0;
    RankOutputSplitter out{};
    std::vector<AggressorProgress> progress = {};
    std::size_t bytes = 0;
    std::string unit = {}, last_words = {};
    bool ready = false;
    std::int64_t port = 0;
    std::optional<int> exit_status = {};
  };

  asio::awaitable<void> start(std::size_t index, std::vector<std::string> argv,
                              std::chrono::milliseconds deadline);
  void take_output(Stressor& stressor, OutputStream stream, std::string_view bytes);
  void take_line(Stressor& stressor, const RankLine& line);
  /// `bytes` of output that it cost.
  void take_progress(Stressor& stressor, const protocol::Progress& said, std::size_t bytes);
  asio::awaitable<void> wait_until(const char* what, std::function<bool()> reached,
                                   std::chrono::milliseconds deadline);
  using Which = std::function<bool(const Stressor&)>;
  asio::awaitable<void> tell(std::string word, Which which);
  asio::awaitable<void> end(Which which, std::chrono::milliseconds deadline);
  void fail(const std::string& words);
  bool has_reached_level(const Stressor& stressor) const;

  const TenantPlacement& placement_;
  std::vector<JobNode> nodes_;
  MpiDialect mpi_;
  std::vector<std::unique_ptr<Stressor>> stressors_;
  std::optional<std::string> failure_;
  bool stopping_ = false;
  std::int64_t level_since_ns_ = 0, level_until_ns_ = 0;
  Waiter waiter_;
};

/// The command line of one stressor of this aggressor, without what only a running one knows (--peer).
/// Without a file for its load the node has a scratch disk.
std::vector<std::string> stressor_command(const std::string& program, const std::string& kind, double level,
                                          std::optional<int> gpu, std::uint64_t node_memory_bytes,
                                          const std::string& load_file);

}  // namespace virtrain::harness
