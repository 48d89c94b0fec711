#pragma once

#include <cstdint>
#include <string>

#include "workloads/resnet50/cuda/program/step_program.h"

/// What the passes of a step have to move through the GPU's memory, from its program alone.
namespace virtrain::resnet50::cuda {

/// The row that an operation belongs to where a step is taken apart: "convolution forward", "norm apply",
/// "update".
std::string pass_of(const Action& action);

/// Whether it is about other ranks: a rank that is alone leaves it out.
bool communicates(const Action& action);

/// Bytes that an action reads and writes in one micro-batch: each of its tensors once for each way, nothing
/// from caches, no workspace. A convolution counts its whole input, also where its stride leaves some of it
/// unread.
std::int64_t traffic_bytes(const StepProgram& program, const Action& action);

}  // namespace virtrain::resnet50::cuda
