#pragma once

#include "workloads/resnet50/cuda/run/step_executor.h"

namespace virtrain::resnet50::cuda {

/// Queues one operation on the GPU: each action is one call.
class ActionLauncher {
 public:
  ActionLauncher(StepExecutor& executor, int micro_batch) : executor_(executor), micro_batch_(micro_batch) {}

  void operator()(const RunGraph& a) const;
  void operator()(const NormSums& a) const;
  void operator()(const NormFinalize& a) const;
  void operator()(const NormApply& a) const;
  void operator()(const NormBackwardSums& a) const;
  void operator()(const NormBackwardFinalize& a) const;
  void operator()(const NormBackwardApply& a) const;
  void operator()(const MaxPool& a) const;
  void operator()(const MaxPoolBackward& a) const;
  void operator()(const AveragePool& a) const;
  void operator()(const AveragePoolBackward& a) const;
  void operator()(const Add& a) const;
  void operator()(const SoftmaxCrossEntropy& a) const;
  void operator()(const MeanLoss& a) const;
  void operator()(const ColumnSums& a) const;
  void operator()(const Widen& a) const;
  void operator()(const Accumulate& a) const;
  void operator()(const AllReduce& a) const;
  void operator()(const AwaitAllReduce& a) const;
  void operator()(const FindOverflow& a) const;
  void operator()(const Sgd& a) const;
  void operator()(const AdvanceLossScale& a) const;
  void operator()(const Stamp& a) const { note(a, stream()); }

 private:
  template <typename T = void>
  T* at(Ref tensor, std::int64_t first = 0) const;
  NormVectors vectors(const NormRefs& norm) const;
  PartialSums sums(Ref first, Ref second, const RowShape& shape, bool one_row) const;
  void note(const Stamp& stamp, Stream stream) const;
  Numeric numeric_of(Ref tensor) const { return cuda::numeric_of(executor_.program_, tensor); }
  Numeric numeric() const { return executor_.program_.settings.numeric; }
  Stream stream() const { return executor_.compute_.get(); }

  StepExecutor& executor_;
  int micro_batch_;
};

}  // namespace virtrain::resnet50::cuda
