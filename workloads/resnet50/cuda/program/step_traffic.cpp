#include "workloads/resnet50/cuda/program/step_traffic.h"

namespace virtrain::resnet50::cuda {

std::int64_t operand_bytes(const StepProgram& program, const Operand& operand) {
  const ProgramTensor& tensor = program.at(operand.tensor);
  const int parts = tensor.per_micro_batch ? program.settings.accumulate_steps : 1;
  const std::int64_t elements = operand.elements == Operand::whole ? tensor.count / parts : operand.elements;
  return elements * bytes_of(tensor.element, program.settings.numeric);
}

std::int64_t traffic_bytes(const StepProgram& program, const Operation& operation) {
  std::int64_t bytes = 0;
  for (const Operand& operand : operation.operands) { bytes += operand_bytes(program, operand); }
  return bytes;
}

}  // namespace virtrain::resnet50::cuda
