#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/evidence/device_evidence.h"
#include "harness/job/plan_file.h"
#include "harness/job/tenant_job.h"
#include "harness/trial/node_set.h"
#include "harness/trial/run_context.h"
#include "vmctl/hypervisor/domain/topology_check.h"

namespace virtrain::harness {

/// One execution of one case in one arm, from its row in the database to its result there. The nodes may
/// outlive it (reuse: case).
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
  asio::awaitable<void> run(NodeSet& nodes, bool nodes_are_up);
  /// Writes buffered samples and telemetry; also after a failure, for what was measured counts. Throws
  /// Error(trial_failed) where the schema refuses a row, and drops what was buffered.
  void flush();

  /// A stage begins; those before define are the caller's.
  void enter(const std::string& stage);
  const std::string& stage() const { return stage_; }
  /// What went wrong in the nodes while the trial ran: the console's end of the first lost one.
  std::string console_tail() const { return console_tail_; }
  double images_per_second() const { return images_per_second_; }
  std::int64_t row() const { return trial_row_; }

 private:
  struct NodeRow {
    std::int64_t id = 0;
    results::Node record;
    std::vector<results::Telemetry> telemetry;
    NodeCounters before, after;
    vmctl::GuestTopology topology;  ///< of a VM with devices
    std::optional<bool> licensed_at_start, licensed_at_end;
    bool visible_from_host = true;  ///< until libvirt fails to answer for it
  };
  struct RankRow {
    std::int64_t id = 0;
    results::Rank record;
    bool is_new = false;  ///< not stored yet
    std::size_t stored_samples = 0;
  };
  struct TenantRow {
    std::int64_t id = 0;
    results::Tenant record;
    std::vector<RankRow> ranks;
  };

  void save_tenants();
  void save_nodes(NodeSet& nodes);
  void watch_agents(NodeSet& nodes);
  asio::awaitable<void> make_jobs(NodeSet& nodes);
  asio::awaitable<void> look_at_guest_devices(NodeSet& nodes);
  asio::awaitable<void> probe(NodeSet& nodes);
  asio::awaitable<void> probe_node(NodeSet& nodes, std::size_t n, std::vector<std::string> command);
  asio::awaitable<std::map<std::string, std::string>> gpu_environment(NodeSet& nodes, std::size_t n);
  std::optional<std::string> plans_home(NodeSet& nodes, std::size_t n) const;
  asio::awaitable<void> give_plans_to(NodeSet& nodes);
  asio::awaitable<void> take_plans_from(NodeSet& nodes);
  std::string guest_of(NodeSet& nodes, const LiveNode& node) const;
  void note_plans_failure(const std::string& what, const LiveNode& node, const Error& error);
  asio::awaitable<void> look_at_licences(NodeSet& nodes, std::optional<bool> NodeRow::*into);
  asio::awaitable<void> place(NodeSet& nodes);
  asio::awaitable<void> barrier(NodeSet& nodes);
  asio::awaitable<void> measure(NodeSet& nodes);
  asio::awaitable<void> collect(NodeSet& nodes);
  asio::awaitable<void> read_counters(NodeSet& nodes, NodeCounters NodeRow::*into);
  /// Stores samples and looks at the nodes from the host once a second; ends only by cancellation.
  asio::awaitable<void> poll(NodeSet& nodes);
  std::optional<std::string> try_flush();
  void store_new_rows();
  /// They are stored, or cannot be.
  void forget_new_rows();
  asio::awaitable<void> look_at_nodes(NodeSet& nodes);
  void add_host_telemetry(NodeRow& row, const NodeCounters& counters);
  void on_record(std::size_t tenant, std::int64_t rank, const RankRecord& record);
  void store_results(NodeSet& nodes);
  /// Images per second of all ranks of the tenant.
  double store_ranks(std::size_t tenant);
  void store_tenant(NodeSet& nodes, std::size_t tenant);
  void store_nodes(NodeSet& nodes);
  NodeEvidence node_evidence(NodeSet& nodes, std::size_t node) const;
  TenantEvidence tenant_evidence(NodeSet& nodes, std::size_t tenant) const;
  void take_gpu_evidence(NodeSet& nodes, std::size_t tenant);
  std::int64_t network_bytes_required(const TenantPlacement& tenant) const;
  std::int64_t network_bytes_measured(NodeSet& nodes, std::size_t tenant) const;
  std::optional<std::int64_t> start_spread_ns() const;
  std::chrono::milliseconds time_left() const;

  RunContext& context_;
  const PlannedTrial& planned_;
  const Placement& placement_;
  std::int64_t trial_row_;
  KnownPlans& plans_;
  std::string stage_ = "define";
  std::string console_tail_;
  std::vector<NodeRow> node_rows_;
  std::vector<std::shared_ptr<AgentClient>> watched_;
  std::vector<TenantRow> tenant_rows_;
  std::vector<std::shared_ptr<TenantJob>> jobs_;
  std::optional<DeviceWatch> device_watch_;  ///< from the barrier on
  std::int64_t deadline_ns_ = 0;
  double images_per_second_ = 0;
};

}  // namespace virtrain::harness
