#pragma once

#include "workloads/resnet50/cuda/program/step_program.h"

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

}  // namespace virtrain::resnet50::cuda
