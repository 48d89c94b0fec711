#pragma once

#include <cstdint>

#include "workloads/resnet50/cuda/program/step_program.h"

/// Bytes that the operations of a step have to move through the GPU's memory, from its program alone.
namespace virtrain::resnet50::cuda {

/// Bytes that an operation reads and writes in one micro-batch: each of its tensors once for each way,
/// nothing from caches, no workspace. A convolution counts its whole input, also where its stride leaves some
/// of it unread.
std::int64_t traffic_bytes(const StepProgram& program, const Operation& operation);

/// Bytes of one operand.
std::int64_t operand_bytes(const StepProgram& program, const Operand& operand);

}  // namespace virtrain::resnet50::cuda
