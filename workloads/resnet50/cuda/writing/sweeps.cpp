#include "workloads/resnet50/cuda/writing/sweeps.h"

#include <map>

#include "workloads/resnet50/cuda/program/step_traffic.h"

namespace virtrain::resnet50::cuda {

void choose_sweeps(StepProgram& program) {
  std::map<Ref, Sweep> last;
  for (Operation& operation : program.micro_batch) {
    if (operation.sweeps) {
      const Operand* largest = nullptr;
      for (const Operand& operand : operation.operands) {
        if (operand.access == Access::write || !last.contains(operand.tensor)) { continue; }
        if (largest == nullptr || operand_bytes(program, operand) > operand_bytes(program, *largest)) {
          largest = &operand;
        }
      }
      const bool ascended = largest == nullptr || last.at(largest->tensor) == Sweep::ascending;
      operation.sweep = ascended ? Sweep::descending : Sweep::ascending;
    }
    for (const Operand& operand : operation.operands) { last[operand.tensor] = operation.sweep; }
  }
}

}  // namespace virtrain::resnet50::cuda
