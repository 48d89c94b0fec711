#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/store/records.h"

// Described are the columns of queries/comparison_*.sql, in their order. What is known of a case in an arm is
// known of its trials in one `unit`: others measured something else.
namespace virtrain::results {

/// Which experiments are meant. With nothing given: the latest one that has trials.
struct Selection {
  std::vector<std::string> experiments = {};
  std::string scenario = {};
  std::string label = {};
  bool all = false;
};

/// One selected experiment.
struct ComparisonExperiment {
  std::string id = {};
  std::string scenario = {};
  std::string label = {};
  std::string host_name = {};
  std::string started_at = {};
  std::string boot_id = {};
  std::string arms = {};                            ///< of its plan, as JSON; empty: it says nothing of them
  std::optional<double> isolation_margin = {};      ///< of its plan; where it measures isolation
  std::optional<std::int64_t> isolation_seed = {};  ///< likewise
  std::string looks = {};  ///< likewise: when its pairs were looked at; empty: at the end
};
BOOST_DESCRIBE_STRUCT(ComparisonExperiment, (),
                      (id, scenario, label, host_name, started_at, boot_id, arms, isolation_margin,
                       isolation_seed, looks))

/// One trial, as much of it as a comparison needs.
struct ComparisonRow {
  std::int64_t experiment = 0;  ///< position in ComparisonData::experiments
  std::string case_name = {};
  std::string arm = {};
  std::optional<std::int64_t> pair = {};
  std::optional<std::int64_t> order = {};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 0;
  std::optional<std::int64_t> ranks_per_node = {};
  std::optional<std::int64_t> batch_size = {};
  std::string precision = {};
  std::string backend = {};
  std::string virtualization = {};
  bool oversubscribed = false;
  Status status = Status::finished;
  bool valid = true;
  std::string started_at = {};
  std::string boot_id = {};  ///< of the host, where the trial itself says it; else the experiment's holds
  std::int64_t trial = 0;    ///< its id in the database
  CaseKey case_key = {};
  ArmKey arm_key = {};
  std::optional<double> throughput = {};
  std::string unit = images_unit;
};
BOOST_DESCRIBE_STRUCT(ComparisonRow, (),
                      (case_name, arm, pair, order, nodes, gpus_per_node, ranks_per_node, batch_size,
                       precision, backend, virtualization, oversubscribed, status, valid, started_at, boot_id,
                       trial, case_key, arm_key, throughput, unit))

/// Mean throughput of one tenant over the valid finished trials of a case in an arm of an experiment, in one
/// unit.
struct TenantMean {
  std::int64_t experiment = 0;
  std::string case_name = {};
  std::string arm = {};
  std::int64_t tenant_index = 0;
  std::string name = {};
  std::optional<double> throughput = {};
  std::int64_t runs = 1;  ///< trials with a throughput
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 0;
  std::string workload = {};   ///< as JSON
  std::string transport = {};  ///< between its ranks
  std::string unit = images_unit;
};
BOOST_DESCRIBE_STRUCT(TenantMean, (),
                      (case_name, arm, tenant_index, name, throughput, runs, nodes, gpus_per_node, workload,
                       transport, unit))

/// Means of what one stressor of a neighbour did beside the trials of a case in an arm of an experiment.
struct NeighbourMean {
  std::int64_t experiment = 0;
  std::string case_name = {};
  std::string arm = {};
  std::string stressor = {};
  std::optional<double> busy = {};         ///< share of the time in which it was at work
  std::optional<double> rate = {};         ///< work a second, beside the victims' counted steps
  std::optional<double> rate_before = {};  ///< the same while the victims waited
  std::string rate_unit = {};
  std::int64_t trials = 0;
  std::string unit = images_unit;  ///< of the victims' throughput
};
BOOST_DESCRIBE_STRUCT(NeighbourMean, (),
                      (case_name, arm, stressor, busy, rate, rate_before, rate_unit, trials, unit))

/// How fast a neighbour worked beside one trial, all of its stressors together.
struct NeighbourRate {
  std::int64_t experiment = 0;
  std::string case_name = {};
  std::string arm = {};
  std::int64_t pair = 0;
  std::optional<double> rate = {};  ///< work a second, beside the victims' counted steps
  std::string unit = images_unit;   ///< of the victims' throughput
};
BOOST_DESCRIBE_STRUCT(NeighbourRate, (), (case_name, arm, pair, rate, unit))

/// A step that a victim took beside what was left of its aggressor, of one valid finished trial.
struct LaterStepRow {
  std::int64_t experiment = 0;
  std::string case_name = {};
  std::string arm = {};
  std::int64_t pair = 0;
  double end = 0;  ///< as in LaterStep
  double seconds = 0;
  double work = 0;  ///< what `unit` counts
  std::string unit = images_unit;
};
BOOST_DESCRIBE_STRUCT(LaterStepRow, (), (case_name, arm, pair, end, seconds, work, unit))

/// Step times of ranks of one tenant, of valid finished trials of a case in an arm of an experiment. A tenant
/// has several of them.
struct StepTimes {
  std::int64_t experiment = 0;
  std::string case_name = {};
  std::string arm = {};
  std::int64_t tenant_index = 0;
  std::vector<double> seconds = {};
  std::string unit = images_unit;
};

/// One fact seen in an arm of a case of an experiment; facts of the host have the prefix "host.".
struct ArmFact {
  std::string case_name = {};
  std::string arm = {};
  std::string key = {};
  std::string value = {};
  std::int64_t experiment = 0;
  std::string trials = {};  ///< ids of those that saw it, a JSON list; empty: all that count
  std::string unit = images_unit;
};
BOOST_DESCRIBE_STRUCT(ArmFact, (), (case_name, arm, key, value, trials, unit))

/// The mean of one number seen in an arm of a case of an experiment.
struct ArmNumber {
  std::string case_name = {};
  std::string arm = {};
  std::string name = {};
  double value = 0;
  std::int64_t count = 1;  ///< of nodes or ranks in the mean
  std::int64_t experiment = 0;
  std::string unit = images_unit;
};
BOOST_DESCRIBE_STRUCT(ArmNumber, (), (case_name, arm, name, value, count, unit))

/// One figure of a micro-benchmark of an experiment.
struct ExperimentProbe {
  std::int64_t experiment = 0;
  Probe probe = {};
};

/// A mean of a published weak-scaling step, of an experiment that is not compared itself.
struct PublishedMean {
  std::string experiment = {};
  std::string scenario = {};
  std::string case_name = {};
  std::string arm = {};
  std::int64_t nodes = 1;
  double throughput = 0;
  std::string unit = images_unit;
};
BOOST_DESCRIBE_STRUCT(PublishedMean, (), (experiment, scenario, case_name, arm, nodes, throughput, unit))

/// All that compare() looks at, in the order the trials were stored.
struct ComparisonData {
  std::vector<ComparisonExperiment> experiments = {};
  std::vector<ComparisonRow> rows = {};
  std::vector<TenantMean> tenants = {};
  std::vector<NeighbourMean> neighbours = {};       ///< only where isolation is asked for
  std::vector<NeighbourRate> neighbour_rates = {};  ///< likewise
  std::vector<LaterStepRow> later_steps = {};       ///< likewise
  std::vector<StepTimes> step_times = {};           ///< only where tenants share a case
  std::vector<ArmFact> facts = {};
  std::vector<PublishedMean> published = {};
  std::vector<ArmNumber> numbers = {};       ///< only where causes are asked for
  std::vector<ExperimentProbe> probes = {};  ///< only where causes or predictions are asked for
};

}  // namespace virtrain::results
