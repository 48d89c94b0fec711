#pragma once

#include <string>
#include <vector>

#include "workloads/resnet50/cuda/plan/fusion.h"
#include "workloads/resnet50/cuda/run/step_executor.h"

/// Where the time of a step goes, operation by operation.
namespace virtrain::resnet50::cuda {

struct OperationTime {
  const Operation* operation;  ///< of the executor's program
  int micro_batch;
  double seconds;  ///< median
};

/// Times every operation but the exchange with other ranks, in the course of whole steps that are not
/// captured: caches are as they are in a step. Where an operation is shorter than its launch by the host
/// takes (small batches), the wait for the host is in its time. The steps count: all that is kept over steps
/// has changed afterwards.
std::vector<OperationTime> time_operations(StepExecutor& executor);

/// Sums by the choices of fusion on which operations depend.
SiteSeconds seconds_by_site(const std::vector<OperationTime>& times);

/// One JSON object a line: {"name", "pass", "micro_batch", "seconds", "bytes", "bytes_per_second", "graph":
/// what cuDNN was asked for, "engine": which of its engines runs}; the last two are null for our kernels.
/// Throws Error(io).
void write_profile(const std::string& file, const StepExecutor& executor,
                   const std::vector<OperationTime>& times);

}  // namespace virtrain::resnet50::cuda
