#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workloads/resnet50/cuda/program/step_program.h"

/// State that the passes of a step share while they are written: its tensors, its list of operations, and the
/// gradients that are complete.

namespace virtrain::resnet50::cuda {

/// A range of gradients that travels at once, complete when slice `last` is.
struct Bucket {
  std::int64_t first = 0;  ///< element
  std::int64_t count = 0;
  std::size_t last = 0;  ///< index of the slice that completes it

  auto operator<=>(const Bucket&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Divides a block of gradients into buckets by the rule of BucketRule (model.h); the last one takes what
/// remains. `ends`: the element behind each slice, padding included, in the order in which they become
/// complete.
std::vector<Bucket> plan_buckets(std::span<const std::int64_t> ends, std::int64_t bucket_elements);

/// The tensors of a step while it is built: parameters and their gradients, norms' vectors, activations.
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

/// Input of a convolution: an activation, or the raw output of the one before with the factors of its norm.
struct Source {
  Ref values = no_tensor;
  Ref scale16 = no_tensor, shift16 = no_tensor;

  bool is_normalized_on_reading() const { return scale16 != no_tensor; }
};

/// A unit after its forward pass.
struct UnitState {
  const Unit* unit = nullptr;
  std::size_t first_parameter = 0;
  Source in;
  RowShape shape;  ///< of y
  Ref y = no_tensor;
  NormRefs norm;
  Source out;
  Ref mask = no_tensor;
};

struct BlockState {
  std::vector<UnitState> units;
  std::vector<UnitState> shortcut;  ///< one or none
  Ref in = no_tensor, out = no_tensor, mask = no_tensor;
};

/// All that the backward pass needs of the forward pass.
struct ForwardState {
  UnitState stem;
  PoolShape pool;
  Ref pool_position = no_tensor;
  std::vector<BlockState> blocks;
  Ref out = no_tensor;
};

using Sites = std::vector<std::string>;

class StepEmitter {
 public:
  StepEmitter(const Model& model, StepProgram& program);

  const Model& model() const { return model_; }
  const StepSettings& settings() const { return program_.settings; }
  const StepHandles& handles() const { return program_.handles; }
  StepTensors& tensors() { return tensors_; }
  const ProgramTensor& at(Ref tensor) const { return program_.at(tensor); }

  template <typename Action>
  void emit(const std::string& name, const Action& action, const Sites& sites = {}, When when = When::every) {
    add(program_.micro_batch, name, row(action), sites, when);
  }
  GraphSpec spec(GraphKind kind, const UnitState& unit) const {
    return convolution_graph(kind, settings().numeric, settings().batch, unit.unit->convolution);
  }

  /// Weights' gradients come in the order of the parameters' layout; what completes a bucket sends it.
  void weights_gradient_done();
  void vectors_gradients_done();
  /// Writes the update, which runs once, behind all micro-batches.
  void update();

  /// Notes the time here; returns the stamp's index.
  int stamp(When when) { return stamp(program_.micro_batch, when); }
  void add_stamps();
  void add_span(const char* name, int begin, int end) { program_.spans.push_back({name, false, begin, end}); }
  /// At the end of the step; needs what is exposed from its begin on.
  int final_stamp() { return stamp(program_.update, When::every); }
  int exposed_begin() const { return program_.exposed_begin; }
  int exposed_end() const { return program_.exposed_end; }

 private:
  static void add(std::vector<Operation>& operations, const std::string& name, Operation operation,
                  const Sites& sites, When when);
  int stamp(std::vector<Operation>& operations, When when);
  int next_stamp() { return stamps_++; }
  void finish_gradients(ParameterGroup group, const Bucket& range, const std::string& name);
  Numeric numeric_of(Ref tensor) const { return cuda::numeric_of(program_, tensor); }

  const Model& model_;
  StepProgram& program_;
  StepTensors tensors_;
  std::vector<Bucket> buckets_;  ///< of the weights
  int stamps_ = 0;
  std::size_t next_bucket_ = 0, weights_done_ = 0;
};

}  // namespace virtrain::resnet50::cuda
