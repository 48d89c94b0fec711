#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/common/peers/peers.h"
#include "workloads/probe/exchange.h"
#include "workloads/probe/figure.h"

namespace virtrain::probe {

/// Bus bandwidth over algorithm bandwidth: what a link must carry at least, so that different numbers of
/// ranks compare (NVIDIA/nccl-tests, doc/PERFORMANCE.md): 2 (n - 1) / n, (n - 1) / n, 1.
double bus_factor(Collective collective, int ranks);

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

/// Messages of `bytes` there and back between ranks 0 and 1, `warmup` + `counted` times: the median is the
/// figure, the least is in its detail; every byte of every answer is checked. All ranks call it; the times
/// are rank 0's.
Figure measure_round_trip(Peers& peers, std::uint64_t bytes, int warmup, int counted);

// nccl-tests' table, so that whoever reads theirs reads ours (NVIDIA/nccl-tests, src/util.cu: the lines;
// src/common.cu: what stands around them). GB are 10^9 bytes.

/// A rank as the table names it.
struct Process {
  std::string host = {};
  int pid = 0;
  std::string device = {};  ///< " 0 [0000:19:00.0] NVIDIA H200"
};

/// Settings of a sweep, for the lines before the table.
struct SweepSetting {
  Collective collective = Collective::all_reduce;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::int64_t factor = 2;
  Repetitions repetitions = {};
  std::string library = {};             ///< "Open MPI 4.1.4"
  std::vector<Process> processes = {};  ///< of each rank
};

/// Lines up to the column heads.
std::string nccl_preamble(const SweepSetting& setting);
std::string nccl_line(const SweepLine& line);
/// Lines after the last size: wrong values, mean bus bandwidth over all sides, the end.
std::string nccl_conclusion(Collective collective, const std::vector<SweepLine>& lines);

/// A number in `width` columns with as many decimals as fit, as nccl-tests' getFloatStr prints it.
std::string fitted_number(double value, int width);

}  // namespace virtrain::probe
