#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "workloads/resnet50/cpu/operations/device.h"
#include "workloads/resnet50/cpu/operations/operations.h"
#include "workloads/resnet50/dump.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cpu {

/// fp32 master parameters, their velocities and gradients: three contiguous arrays, in the order in which the
/// backward pass finishes gradients (the model's order reversed), each parameter in its operation's layout.
class ParameterStore {
 public:
  /// One layout per parameter, in the model's order.
  ParameterStore(Device& device, std::vector<Parameter> parameters, std::vector<Layout> layouts);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Tensor& master(std::size_t index) const { return masters_[index]; }
  const Tensor& gradient(std::size_t index) const { return gradients_[index]; }

  std::span<float> all_masters() const { return span(master_buffer_, elements_); }
  std::span<float> all_velocities() const { return span(velocity_buffer_, elements_); }
  std::span<float> all_gradients() const { return span(gradient_buffer_, elements_); }
  /// The gradients and one more element, which the trainer sends along.
  std::span<float> gradients_and_control() const { return span(gradient_buffer_, elements_ + 1); }
  /// End of this parameter's gradient in all_gradients(); all before it belongs to parameters behind it in
  /// the model.
  std::size_t gradient_end(std::size_t index) const { return ends_[index]; }

  void set(std::size_t index, const std::vector<float>& plain);
  std::vector<float> plain_master(std::size_t index) const { return plain(masters_[index]); }
  std::vector<float> plain_gradient(std::size_t index) const { return plain(gradients_[index]); }
  /// Hash of all master parameters in the model's order and plain layout.
  std::uint64_t hash() const;
  /// Hash of the layouts: ranks can only add up gradients if theirs are the same.
  std::uint64_t layout_hash() const;

 private:
  static std::span<float> span(const AlignedBuffer& buffer, std::size_t count) {
    return {static_cast<float*>(buffer.data()), count};
  }
  std::vector<float> plain(const Tensor& tensor) const;

  Device& device_;
  std::vector<Parameter> parameters_;
  std::size_t elements_ = 0;
  std::vector<std::size_t> ends_;
  AlignedBuffer master_buffer_;
  AlignedBuffer velocity_buffer_;
  AlignedBuffer gradient_buffer_;
  std::vector<Tensor> masters_;
  std::vector<Tensor> gradients_;
};

/// Row-major layout of this shape.
Layout plain_layout(const std::vector<std::int64_t>& shape);

/// The model on oneDNN: activations, operations and the two passes over them.
class Network {
 public:
  Network(Device& device, const Model& model, int batch_size);

  /// One layout per parameter of the model, as the operations want them.
  std::vector<Layout> parameter_layouts() const;
  /// The store that holds the parameters; must be set before the first pass.
  void attach(const ParameterStore& store) { store_ = &store; }

  /// Images of a batch in the layout and precision of the first convolution.
  Tensor prepare_images(const std::vector<float>& images);

  /// Mean loss over the batch; keeps what the backward pass needs and updates the running statistics.
  double forward(const Tensor& images, const std::vector<std::int64_t>& labels);

  /// Called with the number of elements at the start of all_gradients() that are final.
  using Ready = std::function<void(std::size_t)>;
  /// Gradients of the latest forward pass, into the store.
  void backward(const Ready& ready);

  /// In the order of norms(model).
  std::vector<RunningStatistics> running_statistics() const;

 private:
  struct UnitState {
    std::size_t first_parameter = 0;  ///< weights; scale and shift follow
    std::unique_ptr<ConvolutionOperation> convolution;
    std::unique_ptr<BatchNormOperation> norm;
    Tensor convolved;
    Tensor out;  ///< none for a shortcut: its output only lives until the addition
    RunningStatistics running;
  };
  struct BlockState {
    std::vector<UnitState> units;
    std::unique_ptr<UnitState> shortcut;
  };

  UnitState make_unit(const Unit& unit, bool input_gradient, bool keeps_output);
  void forward_unit(UnitState& unit, const Tensor& in, const Tensor& out);
  void forward_block(BlockState& block, const Tensor& in);
  /// From the gradient of the unit's output to that of its input (in `slot`, in `in`'s layout).
  Tensor backward_unit(UnitState& unit, const Tensor& in, const Tensor& gradient, const Tensor& norm_gradient,
                       Scratch slot, const Ready& ready);
  void backward_norm_and_weights(UnitState& unit, const Tensor& in, const Tensor& gradient,
                                 const Tensor& norm_gradient, const Ready& ready);
  Tensor backward_head();

  Device& device_;
  Model model_;
  int batch_size_;
  const ParameterStore* store_ = nullptr;
  std::size_t next_parameter_ = 0;

  UnitState stem_;
  std::unique_ptr<PoolOperation> stem_pool_;
  Tensor pooled_;
  std::vector<BlockState> blocks_;
  std::unique_ptr<PoolOperation> average_;
  Tensor averaged_;
  std::unique_ptr<LinearOperation> linear_;
  Tensor features_;       ///< plain {batch, features, 1, 1}
  Tensor features_rows_;  ///< the same memory as {batch, features}
  Tensor logits_;
  Tensor logits_gradient_;
  Tensor images_;  ///< of the latest forward pass
};

}  // namespace virtrain::resnet50::cpu
