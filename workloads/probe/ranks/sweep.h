#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/probe/figure.h"
#include "workloads/probe/ranks/exchange.h"

namespace virtrain::probe {

/// One way of doing an operation.
struct Side {
  double seconds = 0;      ///< of one operation, of the slowest rank
  std::int64_t wrong = 0;  ///< elements of all ranks that were not what they should be
};

/// One size of a sweep, as a line of nccl-tests has it.
struct SweepLine {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  std::uint64_t size_bytes = 0;           ///< of the larger of what goes in and what comes out on one rank
  std::uint64_t count = 0;                ///< elements (floats) that go in on one rank
  std::optional<Side> out_of_place = {};  ///< MPI's broadcast is in place only
  Side in_place = {};

  /// Bytes a second.
  double algorithm_bandwidth(const Side& side) const;
  double bus_bandwidth(const Side& side) const;
};

struct Repetitions {
  int warmup = 5;
  int counted = 20;
};

/// Does the operation on floats of about `bytes` (rounded to whole floats of each rank, at least one), times
/// it and checks the data of one operation more. All ranks call it and all get the same line.
SweepLine measure(Collective collective, Exchange& exchange, Peers& peers, std::uint64_t bytes,
                  const Repetitions& repetitions);

/// The line as probe records: out of place if there is one, and in place.
std::vector<Figure> figures(const SweepLine& line);

}  // namespace virtrain::probe
