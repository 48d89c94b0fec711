#pragma once

#include <string>
#include <vector>

#include "workloads/resnet50/cuda/program/step_program.h"

/// The tensors of a step while it is built: parameters and their gradients, norms' vectors, activations.
namespace virtrain::resnet50::cuda {

class StepTensors {
 public:
  StepTensors(const Model& model, StepProgram& program);

  /// Lives from its first to its last use.
  Ref step(const std::string& name, Element element, std::int64_t count);
  Ref activation(const std::string& name, const RowShape& shape) {
    return step(name, Element::activation, shape.rows * shape.channels);
  }

  /// Room for the times of that many stamps.
  Ref add_stamps(std::int64_t count) { return persistent("stamps", Element::time, count); }

  /// Where all normalizations put their partial sums, one after the other.
  const PartialRefs& partial() const { return partial_; }

  /// By index in parameters(model): what graphs and kernels read, and where the gradient of one micro-batch
  /// goes.
  Ref parameter(std::size_t index) const { return values_[index]; }
  Ref gradient(std::size_t index) const { return gradients_[index]; }

  /// The whole block in which the gradients of a micro-batch come.
  Ref micro_batch_gradients(ParameterGroup group) const {
    return group == ParameterGroup::weights ? weights_gradients_ : vectors_gradients_;
  }

 private:
  Ref add(ProgramTensor tensor);
  Ref persistent(const std::string& name, Element element, std::int64_t count);
  Ref per_micro_batch(const std::string& name, Element element, std::int64_t count);
  /// Masters, velocity and gradients of a group; returns where a micro-batch's gradients go.
  Ref add_block(StepHandles::Block& block, const std::string& name, Element element, std::int64_t count);
  void add_parameters(const std::vector<Parameter>& all);
  void add_norms(const Model& model);

  StepProgram& program_;
  std::vector<Ref> values_, gradients_;
  PartialRefs partial_;
  Ref weights_gradients_ = no_tensor, vectors_gradients_ = no_tensor;
};

}  // namespace virtrain::resnet50::cuda
