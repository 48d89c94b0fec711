#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/model/workload.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {

/// One measured run of a weak-scaling family.
struct ScalingRun {
  std::int64_t nodes = 1;
  double throughput = 0;  ///< of all nodes
};

/// One point of an all-reduce sweep.
struct AllReducePoint {
  std::int64_t ranks = 2;
  double bytes = 0;
  double seconds = 0;
};

/// Most sizes that are fitted: each is also predicted from the others, and each case tells all of it.
inline constexpr std::size_t most_predicted_sizes = 300;

/// All that a prediction is fitted on: one arm, one transport.
struct ScalingEvidence {
  std::string transport = {};
  std::vector<ScalingRun> runs = {};
  std::vector<AllReducePoint> probes = {};
  bool several_sweeps = false;  ///< with settings that differ, so that none of them is taken
  /// Images of one step of one node, where throughputs are in images/s; with it times are in seconds, without
  /// it in steps of one node.
  std::optional<double> images_per_step = {};
  double gradient_bytes = 4.0 * resnet50_parameters;  ///< in fp32
};

/// Throughput at one size: measured (where it was), by the model, and between which limits.
struct PredictedPoint {
  std::int64_t nodes = 1;
  std::optional<double> measured = {};        ///< mean throughput
  double predicted = 0;                       ///< throughput
  double ideal = 0;                           ///< nodes times one node
  std::optional<Interval> bound = {};         ///< none where the evidence gives none
  std::optional<double> held_out_error = {};  ///< (predicted without this point - measured) / measured
  double speedup = 1;                         ///< predicted / one node
};

/// T(N) = T(1) + max(0, t(N) - overlap), t(N) = 2 (N - 1) latency + 2 (N - 1) / N * bytes / bandwidth:
/// ring all-reduce (Patarasuk & Yuan 2009) in Hockney's model (Thakur, Rabenseifner & Gropp 2005).
struct Prediction {
  std::string transport = {};
  std::string fitted_on = {};                       ///< probes_and_runs, probes, runs, one_run or nothing
  double one_node = 0;                              ///< throughput of one node
  std::optional<double> step_seconds = {};          ///< T(1)
  std::optional<double> latency_seconds = {};       ///< of one hop; what is exposed of it without probes
  std::optional<double> bytes_per_second = {};      ///< none: no cost of bandwidth was seen
  std::optional<double> overlap_seconds = {};       ///< hidden behind the backward pass; only with probes
  std::optional<double> worst_held_out_error = {};  ///< of largest size; needs three sizes
  bool outside_model = false;                       ///< the measured sizes contradict it: bounds do not hold
  std::vector<std::int64_t> single_runs = {};       ///< measured sizes of which there is one run only
  std::vector<PredictedPoint> points = {};          ///< measured and asked-for sizes, smallest first
  std::size_t too_many_sizes = 0;                   ///< more than most_predicted_sizes: all else is empty
  std::vector<std::string> notes = {};              ///< what a reader must know, in sentences
};

/// Fits and predicts for the measured sizes and for `sizes`. Pure. Error(bad_input) where there is no run on
/// one node, or a value is no throughput.
Prediction predict(const ScalingEvidence& evidence, std::span<const std::int64_t> sizes);

nlohmann::json to_json(const Prediction& prediction);

}  // namespace virtrain::results
