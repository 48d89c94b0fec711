#pragma once

#include <boost/asio/awaitable.hpp>

#include <string>

#include "harness/trial/live_trial.h"

namespace virtrain::harness {

/// One execution of one case in one arm, from its row in the database to its result there: a list of stages.
/// The nodes may outlive it (reuse: case).
class TrialRun {
 public:
  /// `plans`: what the experiment's trials have timed so far, and what this one adds.
  TrialRun(RunContext& context, const PlannedTrial& planned, std::int64_t trial_row, KnownPlans& plans);
  /// The nodes may live on (reuse: case); what they say then is no longer for this trial.
  ~TrialRun();
  TrialRun(const TrialRun&) = delete;
  TrialRun& operator=(const TrialRun&) = delete;

  /// Stages define to collect on these nodes (define to agent only if they are not up yet). Stores everything
  /// that is measured as it comes. Throws Error; the stage it reached is stage().
  asio::awaitable<void> run(LiveNodes& nodes, bool nodes_are_up);
  /// Writes buffered samples and telemetry; also after a failure, for what was measured counts. Throws
  /// Error(trial_failed) where the schema refuses a row, and drops what was buffered.
  void flush();

  /// A stage begins; those before define are the caller's.
  void enter(const std::string& stage);
  const std::string& stage() const { return trial_.stage; }
  /// The console's end of the first node that was lost while the trial ran.
  std::string console_tail() const { return console_tail_; }
  /// The trial's throughput as people read it: "123.4 tokens/s".
  std::string throughput_words() const;
  /// Why the finished trial does not count; empty: it does.
  const std::string& invalid() const { return trial_.invalid; }
  std::int64_t row() const { return trial_.row; }

 private:
  asio::awaitable<void> go_through_stages(LiveNodes& nodes, bool nodes_are_up);
  asio::awaitable<void> bring_up(LiveNodes& nodes);
  void take_nodes(LiveNodes& nodes);
  void watch(TrialNode& node);
  void fail_jobs(const std::string& words);
  asio::awaitable<void> prepare();
  asio::awaitable<void> make_job(LiveTenant& tenant);
  asio::awaitable<void> place();
  asio::awaitable<void> barrier();
  asio::awaitable<void> measure();
  asio::awaitable<void> collect();
  /// Stores samples and looks at the nodes from the host once a second; ends only by cancellation.
  asio::awaitable<void> poll();
  /// Samples are dated when they are read, and nobody reads while a database is waited for, or this process
  /// is stopped: notes how late its own clock is then, which nodes have no part in. Ends only by
  /// cancellation.
  asio::awaitable<void> watch_clock();
  void note_standstill();
  std::chrono::milliseconds time_left() const;

  LiveTrial trial_;
  std::vector<std::shared_ptr<AgentClient>> watched_;
  const LiveNode* lost_ = nullptr;  ///< the first
  std::string console_tail_;
  std::int64_t deadline_ns_ = 0;
  std::chrono::steady_clock::time_point clock_due_ = std::chrono::steady_clock::time_point::max();
};

}  // namespace virtrain::harness
