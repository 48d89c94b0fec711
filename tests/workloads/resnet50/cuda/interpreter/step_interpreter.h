#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "workloads/resnet50/cuda/plan/memory_plan.h"
#include "workloads/resnet50/cuda/program/step_program.h"

/// Runs a step's program on the CPU, as plainly as can be: each tensor lies where the memory plan puts it, so
/// a wrong plan or a wrong order gives wrong numbers. Values are rounded to their stored type, sums are fp64.
namespace virtrain::resnet50::cuda::plain {

using Values = std::vector<double>;

class StepInterpreter {
 public:
  StepInterpreter(const StepProgram& program, const MemoryPlan& plan);

  Values get(Ref tensor, int micro_batch = 0) const;
  void set(Ref tensor, const Values& values, int micro_batch = 0);
  LossScale& loss_scale() { return *reinterpret_cast<LossScale*>(at(program_.handles.loss_scale)); }
  SgdRule& rule() { return *reinterpret_cast<SgdRule*>(at(program_.handles.rule)); }

  /// All but AllReduce, which concerns several.
  void run(const Operation& operation, int micro_batch);
  /// Fills all that is not persistent with NaN: what is read must have been written in this step.
  void forget();

  /// Where a tensor lies.
  std::byte* at(Ref tensor, int micro_batch = 0);

 private:
  const std::byte* at(Ref tensor, int micro_batch = 0) const;

  const StepProgram& program_;
  const MemoryPlan& plan_;
  std::vector<std::byte> arena_;
};

/// One step of several ranks in lockstep; an all-reduce happens where it is started.
void run_step(const StepProgram& program, std::vector<StepInterpreter>& ranks);

/// The convolutions of a graph, on NHWC activations and KRSC weights.
Values convolve(const GraphSpec& spec, const Values& x, const Values& w);
Values convolve_backward_data(const GraphSpec& spec, const Values& dy, const Values& w);
Values convolve_backward_weights(const GraphSpec& spec, const Values& dy, const Values& x);

}  // namespace virtrain::resnet50::cuda::plain
