#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "results/comparison/causes/predict.h"

namespace virtrain::results {

/// Ring all-reduce in Hockney's model: 2 (N - 1) hops, each with a latency and 1 / N of the bytes.
/// Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009;
/// Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
struct RingModel {
  double latency = 0;           ///< of one hop
  double seconds_per_byte = 0;  ///< 1 / bandwidth
  double overlap = 0;           ///< hidden behind the backward pass
  double bytes = 0;             ///< of all gradients

  double all_reduce_time(std::int64_t nodes) const;
  /// The part that makes a step longer.
  double exposed_time(std::int64_t nodes) const;
};

/// How much longer a step takes on so many nodes than on one.
struct ExtraTime {
  std::int64_t nodes = 2;
  double time = 0;
};

/// Latency and bandwidth from a sweep by non-negative least squares of relative errors; nothing for fewer
/// than two different points.
std::optional<RingModel> fit_sweep(std::span<const AllReducePoint> sweep, double bytes);
/// The overlap that fits best to what was measured, with the latency and bandwidth of a sweep.
RingModel fit_overlap(RingModel model, std::span<const ExtraTime> points);
/// Exposed latency and bandwidth straight from what was measured, by non-negative least squares; from a
/// single size the bandwidth alone.
RingModel fit_ring(std::span<const ExtraTime> points, double bytes);
/// As fit_ring, with all of the cost in one of the two.
RingModel fit_latency(std::span<const ExtraTime> points);
RingModel fit_bandwidth(std::span<const ExtraTime> points, double bytes);

}  // namespace virtrain::results
