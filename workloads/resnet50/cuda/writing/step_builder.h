#pragma once

#include "workloads/resnet50/cuda/program/step_program.h"

namespace virtrain::resnet50::cuda {

StepProgram build_step(const Model& model, const StepSettings& settings);

/// Each distinct graph of such a step, in the order of first use.
std::vector<GraphSpec> graphs_of_step(const Model& model, int batch, Numeric numeric, Fusion fusion);

}  // namespace virtrain::resnet50::cuda
