#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "workloads/common/cuda/gpu.h"
#include "workloads/resnet50/cuda/engine/graph_set.h"
#include "workloads/resnet50/cuda/plan/memory_plan.h"
#include "workloads/resnet50/cuda/program/step_program.h"
#include "workloads/resnet50/cuda/run/gradient_exchange.h"

struct CUgraphExec_st;

namespace virtrain::resnet50::cuda {

/// The stream on which steps compute, and cuDNN's handles on it. Each handle takes memory of the GPU, so all
/// executors of a process share them.
struct ComputeStream {
  GpuStream stream;
  Cudnn cudnn{stream.get()};
};

/// Runs a step's program on the GPU: all of it is one CUDA graph, launched again and again.
class StepExecutor {
 public:
  /// Plans the memory and takes it, times the engines. Throws Error(usage) with the largest batch that fits
  /// where this one does not, Error(host_unable) where cuDNN lacks an engine for a plain graph. A fused shape
  /// for which it has none is left apart: program().settings says which.
  /// `exchange` is null for a rank that is alone.
  /// `compute` outlives it and serves no other executor meanwhile.
  StepExecutor(const ComputeStream& compute, const Model& model, const StepSettings& settings,
               GradientExchange* exchange, PlanCache& cache, const Progress& progress);
  ~StepExecutor();
  StepExecutor(const StepExecutor&) = delete;
  StepExecutor& operator=(const StepExecutor&) = delete;

  const StepProgram& program() const { return program_; }
  std::int64_t peak_bytes() const { return plan_.peak_bytes; }
  std::int64_t workspace_bytes() const { return graphs_.workspace_bytes(); }
  const std::string& engine_of(const RunGraph& graph) const { return graphs_.engine_of(graph); }
  /// The step repeats bit by bit, as far as cuDNN's engines do.
  bool is_repeatable() const { return graphs_.is_repeatable(); }
  std::size_t graphs() const { return graphs_.size(); }
  std::size_t graphs_timed() const { return graphs_.timed(); }

  /// Runs all once, on meaningless numbers, and clears what is kept over steps: kernels load, which a capture
  /// must not.
  void warm_up();
  /// Zeroes all that is kept over steps. Between steps only, as what follows up to capture().
  void clear();
  void write(Ref tensor, std::span<const std::byte> values, int micro_batch = 0);
  void read(Ref tensor, std::span<std::byte> values) const;
  /// fp32 NCHW with three channels, to where the step reads them.
  void write_images(std::span<const float> images, int micro_batch);
  /// The masters in the type in which the graphs read them, where that is another.
  void copy_masters();

  /// One step that is not captured and leaves other ranks out; `after_each` is called when an operation is
  /// queued.
  void run_alone(const std::function<void(const Operation&, int)>& after_each);
  CUstream_st* stream() const { return compute_.get(); }

  /// From now on the step is what is captured here.
  void capture();

  /// The term that turns the GPU's clock into the host's (monotonic_ns), to some ten microseconds. Needs
  /// stamps, and no step under way.
  std::int64_t clock_offset_ns();

  /// Queues one step; at most two may be under way.
  void launch();
  int under_way() const { return launched_ - finished_; }
  struct Finished {
    double seconds = 0;  ///< since the step before it ended, or since it began
    double loss = 0;     ///< mean over micro-batches
    LossScale loss_scale;
    std::vector<std::uint64_t> stamps;  ///< by the GPU's clock; empty without stamps
  };
  /// Waits for the oldest step under way.
  Finished finish();

 private:
  friend class ActionLauncher;
  /// Leaves shapes apart in `settings`.
  void build(const Model& model, StepSettings& settings, PlanCache& cache, const Progress& progress);
  std::byte* at(Ref tensor, int micro_batch = 0) const;
  void place_gradients();
  std::size_t bytes_of_block(Ref block) const;
  TensorPointers pointers(const RunGraph& graph, int micro_batch) const;
  void run(const Operation& operation, int micro_batch);
  void run_once();
  std::size_t count_of(Ref tensor) const {
    return tensor == no_tensor ? 0 : static_cast<std::size_t>(program_.at(tensor).count);
  }

  /// Results of a step that the host reads. There are four, so that two steps can be under way and the one
  /// before is still known.
  struct Slot {
    GpuEvent begin{GpuEvent::Timing::on}, end{GpuEvent::Timing::on};
    PinnedMemory memory;
    bool follows = false;  ///< on the step before without a gap
  };

  GradientExchange* const exchange_;
  const GpuStream& compute_;
  GpuStream communication_{GpuStream::Priority::high};  ///< else its kernels wait for all that is queued
  GpuEvent gradients_ready_{GpuEvent::Timing::off}, gradients_reduced_{GpuEvent::Timing::off};
  const Cudnn& cudnn_;
  StepProgram program_;
  GraphSet graphs_;
  MemoryPlan plan_;
  DeviceMemory arena_;
  /// Blocks of gradients that lie in the exchange's memory instead.
  std::map<Ref, std::byte*> gradients_;
  CUgraphExec_st* captured_ = nullptr;
  std::array<Slot, 4> slots_;
  int launched_ = 0, finished_ = 0;
};

}  // namespace virtrain::resnet50::cuda
