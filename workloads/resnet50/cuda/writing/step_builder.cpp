#include "workloads/resnet50/cuda/writing/step_builder.h"

#include "workloads/resnet50/cuda/writing/backward_pass.h"
#include "workloads/resnet50/cuda/writing/forward_pass.h"
#include "workloads/resnet50/cuda/writing/sweeps.h"

namespace virtrain::resnet50::cuda {

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
