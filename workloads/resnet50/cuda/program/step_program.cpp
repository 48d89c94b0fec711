#include "workloads/resnet50/cuda/program/step_program.h"

#include <algorithm>

namespace virtrain::resnet50::cuda {
namespace {

bool runs(When when, int micro_batch, int micro_batches) {
  switch (when) {
    case When::every:
      return true;
    case When::first:
      return micro_batch == 0;
    case When::later:
      return micro_batch > 0;
    case When::last:
      return micro_batch + 1 == micro_batches;
  }
  return false;
}

}  // namespace

std::int64_t bytes_of(Element element, Numeric numeric) {
  switch (element) {
    case Element::activation:
      return element_bytes(numeric);
    case Element::fp32:
    case Element::int32:
      return 4;
    case Element::byte:
      return 1;
    case Element::backward_factors:
      return sizeof(BackwardFactors);
    case Element::time:
      return sizeof(std::uint64_t);
    case Element::loss_scale:
      return sizeof(LossScale);
    case Element::sgd_rule:
      return sizeof(SgdRule);
  }
  return 0;
}

void StepProgram::for_each(const std::function<void(const Operation&, int)>& visit) const {
  for (int micro = 0; micro < settings.accumulate_steps; ++micro) {
    for (const Operation& operation : micro_batch) {
      if (runs(operation.when, micro, settings.accumulate_steps)) { visit(operation, micro); }
    }
  }
  for (const Operation& operation : update) { visit(operation, settings.accumulate_steps - 1); }
}

Numeric numeric_of(const StepProgram& program, Ref tensor) {
  return program.at(tensor).element == Element::fp32 ? Numeric::fp32 : program.settings.numeric;
}

float initial_loss_scale(const StepSettings& settings) {
  return settings.numeric == Numeric::fp16 ? 1024.0F * static_cast<float>(settings.ranks) : 1.0F;
}

std::vector<AllReduce> reductions_of(const StepProgram& program) {
  std::vector<AllReduce> all;
  for (const Operation& operation : program.micro_batch) {
    if (operation.reduction) { all.push_back(*operation.reduction); }
  }
  return all;
}

std::vector<GraphSpec> graphs_of(const StepProgram& program) {
  std::vector<GraphSpec> specs;
  for (const Operation& operation : program.micro_batch) {
    if (operation.graph && std::find(specs.begin(), specs.end(), operation.graph->spec) == specs.end()) {
      specs.push_back(operation.graph->spec);
    }
  }
  return specs;
}

}  // namespace virtrain::resnet50::cuda
