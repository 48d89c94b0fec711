#pragma once

#include <cstdint>
#include <vector>

#include "workloads/resnet50/cuda/run/step_executor.h"
#include "workloads/resnet50/dump.h"
#include "workloads/resnet50/model.h"

/// Between the executor's memory and the model's parameters by number, in plain layout.
namespace virtrain::resnet50::cuda {

/// Initial parameters, running statistics, update rule and loss scale.
void write_initial_state(StepExecutor& executor, const Model& model, std::uint64_t seed,
                         double residual_gamma, const SgdRule& rule);

/// One micro-batch of synthetic data.
void write_batch(StepExecutor& executor, const Batch& batch, int micro_batch);

/// All master parameters in the model's order.
std::vector<std::vector<float>> read_parameters(const StepExecutor& executor, const Model& model);
/// All gradients of the latest step, as the update saw them: times `scale`.
std::vector<std::vector<float>> read_gradients(const StepExecutor& executor, const Model& model, float scale);
std::vector<RunningStatistics> read_running_statistics(const StepExecutor& executor);

}  // namespace virtrain::resnet50::cuda
