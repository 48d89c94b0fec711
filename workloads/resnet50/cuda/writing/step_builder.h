#pragma once

#include "workloads/resnet50/cuda/program/step_program.h"

namespace virtrain::resnet50::cuda {

StepProgram build_step(const Model& model, const StepSettings& settings);

}  // namespace virtrain::resnet50::cuda
