#pragma once

#include "workloads/resnet50/cuda/writing/step_builder.h"

namespace virtrain::resnet50::cuda {

/// As a step of these would be set but for what a test has no opinion on.
inline StepSettings settings(int batch, Numeric numeric, Fusion fusion, int accumulate_steps = 1) {
  StepSettings result;
  result.batch = batch;
  result.numeric = numeric;
  result.fusion = fusion;
  result.accumulate_steps = accumulate_steps;
  return result;
}

/// Each distinct graph of such a step, in the order of first use.
inline std::vector<GraphSpec> graphs_of_step(const Model& model, int batch, Numeric numeric, Fusion fusion) {
  return graphs_of(build_step(model, settings(batch, numeric, fusion)));
}

}  // namespace virtrain::resnet50::cuda
