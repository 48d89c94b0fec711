#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "workloads/common/cuda/gpu.h"
#include "workloads/common/peers/peers.h"
#include "workloads/resnet50/cuda/program/graph_spec.h"
#include "workloads/resnet50/cuda/program/step_program.h"

struct CUstream_st;

namespace virtrain::resnet50::cuda {

/// Sums over all ranks, on the GPU. All calls but the last may be captured in a CUDA graph.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  /// Replaces the values by their sum over all ranks, on this stream. The same calls in the same order on
  /// all ranks.
  virtual void sum(void* values, std::int64_t count, Numeric numeric, CUstream_st* stream) = 0;
  /// Memory of the GPU for what is reduced again and again, which lives as long as this; null where any will
  /// do.
  virtual std::byte* memory(std::size_t /*bytes*/) { return nullptr; }
  /// Throws Error if another rank or the network failed meanwhile.
  virtual void check() = 0;
};

/// By NCCL, one GPU for each rank; null for a rank that is alone. `registers`: memory() is NCCL's own. Throws
/// Error(host_unable) where this executable was built without NCCL.
std::unique_ptr<GradientExchange> join_exchange(Peers& peers, bool registers);

/// Waits for the event. A peer that is lost never lets it come, so `exchange` (null for a rank that is alone)
/// is asked about meanwhile.
void wait(const GpuEvent& event, GradientExchange* exchange);

/// Reduces once all that a step reduces, in memory that is free again afterwards: NCCL takes its buffers when
/// it connects, at the first reduction of each kind, and a step's memory is planned from what is free then.
void connect(GradientExchange& exchange, const StepProgram& program);

/// "2.28.9"; nothing without NCCL.
std::optional<std::string> exchange_version();

}  // namespace virtrain::resnet50::cuda
