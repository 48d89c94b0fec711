#pragma once

#include "workloads/resnet50/cuda/plan/memory_plan.h"

/// What of a step's traffic the GPU's cache may save: passes that begin where the one before has ended.
namespace virtrain::resnet50::cuda {

/// Bytes that each operation of a step moves between memory and a cache of so many bytes that keeps what was
/// touched last, in the order of StepProgram::for_each. The step before has left it as this one does. A
/// model: all tensors of an operation at the same pace, no workspace, nothing of how the GPU maps addresses.
std::vector<std::int64_t> memory_bytes(const StepProgram& program, std::int64_t cache_bytes);

}  // namespace virtrain::resnet50::cuda
