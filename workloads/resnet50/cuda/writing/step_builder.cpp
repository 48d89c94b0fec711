#include "workloads/resnet50/cuda/writing/step_builder.h"

#include <map>

#include "workloads/resnet50/cuda/program/step_traffic.h"
#include "workloads/resnet50/cuda/writing/backward_pass.h"
#include "workloads/resnet50/cuda/writing/forward_pass.h"

namespace virtrain::resnet50::cuda {
namespace {

/// Gives each pass that can go either way the order opposite to that in which its largest input was touched
/// last. cuDNN's graphs are taken to go from the first element to the last.
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

}  // namespace

StepProgram build_step(const Model& model, const StepSettings& settings) {
  StepProgram program;
  program.settings = settings;
  StepEmitter step(model, program);
  if (settings.stamps) { step.add_stamps(); }
  const int begin = step.stamp(When::first);
  const int last_begin = step.stamp(When::last);
  const ForwardState forward = ForwardPass(step).write();
  const int loss_done = BackwardPass(step, forward).write();
  step.update();
  const int end = step.final_stamp();
  choose_sweeps(program);
  if (!settings.stamps) { return program; }
  if (settings.accumulate_steps > 1) { step.add_span("earlier micro-batches", begin, last_begin); }
  step.add_span("forward", last_begin, loss_done);
  step.add_span("backward", loss_done, step.exposed_begin());
  step.add_span("update", step.exposed_end(), end);
  return program;
}

}  // namespace virtrain::resnet50::cuda
