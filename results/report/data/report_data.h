#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/changes/changes.h"
#include "results/comparison/compare.h"
#include "results/comparison/mitigation.h"
#include "results/comparison/probe_comparison.h"
#include "results/store/store.h"
#include "results/tables/hosts_table.h"

namespace virtrain::results {

struct ReportRequest {
  CompareRequest compare = {};                  ///< which experiments, arms, margin and alpha
  std::string command_line = {};                ///< that makes this report again
  std::optional<double> isolation_margin = {};  ///< else the scenario's
};

/// A trial with its tenants, as the table of all trials shows it.
struct ReportTrial {
  Trial trial;
  std::vector<Tenant> tenants;
};

/// Records of a node at work.
struct NodeRecord {
  std::string name;
  std::vector<Telemetry> telemetry;
};

/// Records of a tenant at work; samples[i] are those of its i-th rank.
struct TenantRecord {
  std::int64_t index = 0;
  std::string name;
  std::vector<std::vector<Sample>> samples;
  std::vector<NodeRecord> nodes;
};

/// The one trial of a case in an arm and a unit whose course is drawn: the one nearest to the median
/// throughput that has samples.
struct TrialRecord {
  Trial trial;
  std::int64_t trials = 0;  ///< how many there were to choose from
  std::vector<TenantRecord> tenants;
};

/// All that a report shows, as plain values.
struct ReportData {
  ReportRequest request;
  std::string database;
  std::vector<Experiment> experiments;  ///< oldest first
  std::vector<CaseComparison> comparisons;
  IsolationStudy isolation;               ///< victims beside neighbours, and what helps them
  std::vector<ReportTrial> trials;        ///< of all experiments, in stored order
  std::vector<TrialRecord> records;       ///< in order of case and arm
  std::vector<Probe> probes;              ///< of all experiments
  std::vector<TrialFigure> figures = {};  ///< of jobs, beside their throughput
  std::set<std::string> emulated = {};    ///< arms whose VMs were
  ProbeStudy probe_study = {};            ///< where there are no trials
  std::vector<HostReading> hosts;         ///< of those over several hosts
  std::vector<LeakSearch> security;       ///< likewise
  std::map<std::string, Facts> facts;     ///< by arm: values seen in any of its cases, beside neighbours too
  std::map<std::string, std::string> beside = {};  ///< arms beside neighbours, and the arm by itself
  std::vector<std::shared_ptr<const ChangeLog>> changes = {};  ///< of each scenario with nights enough
};

/// Experiments of one scenario from which on their dates are a series; fewer are none.
inline constexpr std::size_t least_nights = 5;

/// Most (case, arm)s whose course is read.
inline constexpr std::size_t most_records = 24;

/// The usable trials of each case and unit, in their order.
using TrialsOfCases = std::map<std::pair<std::string, std::string>, std::vector<const ReportTrial*>>;
TrialsOfCases usable_trials(const std::vector<ReportTrial>& trials);

ReportData read_report_data(const Store& store, const ReportRequest& request);

}  // namespace virtrain::results
