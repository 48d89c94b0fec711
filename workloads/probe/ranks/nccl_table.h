#pragma once

#include <string>
#include <vector>

#include "workloads/probe/ranks/sweep.h"

namespace virtrain::probe {

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
