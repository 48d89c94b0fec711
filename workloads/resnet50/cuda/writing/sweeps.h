#pragma once

#include "workloads/resnet50/cuda/program/step_program.h"

namespace virtrain::resnet50::cuda {

/// Gives each pass that can go either way the order opposite to that in which its largest input was touched
/// last. cuDNN's graphs are taken to go from the first element to the last.
void choose_sweeps(StepProgram& program);

}  // namespace virtrain::resnet50::cuda
