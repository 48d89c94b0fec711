#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "workloads/resnet50/cpu/operations/device.h"
#include "workloads/resnet50/cpu/operations/operations.h"
#include "workloads/resnet50/cpu/parameter_store.h"
#include "workloads/resnet50/dump.h"
#include "workloads/resnet50/initialize.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cpu {

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
