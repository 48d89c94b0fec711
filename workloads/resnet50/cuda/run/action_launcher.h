#pragma once

#include "workloads/resnet50/cuda/run/step_executor.h"

namespace virtrain::resnet50::cuda {

/// Queues the operations of one micro-batch on the GPU.
class ActionLauncher : public Runner {
 public:
  ActionLauncher(StepExecutor& executor, int micro_batch) : executor_(executor), micro_batch_(micro_batch) {}

  void run(const RunGraph& graph) override;
  void start(const AllReduce& reduction) override;
  void await_reductions() override;
  Numeric numeric() const override { return executor_.program_.settings.numeric; }
  Stream stream() const override { return executor_.compute_.get(); }
  const Kernels& kernels() const override;

 private:
  std::byte* place(Ref tensor) const override { return executor_.at(tensor, micro_batch_); }
  void note(const Stamp& moment, Stream on) const;

  StepExecutor& executor_;
  int micro_batch_;
};

}  // namespace virtrain::resnet50::cuda
