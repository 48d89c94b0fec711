#pragma once

#include "workloads/resnet50/cuda/writing/step_emitter.h"

namespace virtrain::resnet50::cuda {

/// Writes loss and backward pass. What comes out of a block's first convolution is the gradient of the output
/// of the block before: depending on the level of fusion its ReLU has been passed, and the sums of its
/// normalizations are there.
class BackwardPass {
 public:
  BackwardPass(StepEmitter& step, const ForwardState& forward) : step_(step), forward_(forward) {}
  /// Returns the stamp behind the loss.
  int write();

 private:
  /// Gradient of a block's output.
  struct Gradient {
    Ref values = no_tensor;
    bool is_masked = false;    ///< the ReLU has been passed
    bool has_factors = false;  ///< then also: those of the block's norms are known
    NormGradientRefs norm, shortcut_norm;
    Sites sites;  ///< on which all this depends
  };

  /// Loss, and back to the gradient of the last block's output.
  Gradient head();
  NormGradientRefs gradients_of(const UnitState& unit);
  /// From the gradient of the norm's output to that of its input.
  void norm(const UnitState& unit, Ref dy, Ref mask, Ref dx, Ref masked, const Sites& sites);
  void tail_norm(const UnitState& unit, const Gradient& gradient, const NormGradientRefs& known, Ref mask,
                 Ref dx, Ref masked);
  void weights(const UnitState& unit, Ref dy, const Sites& sites);
  Ref data(const UnitState& unit, Ref dy, Ref in_for_size, const Sites& sites);
  /// Through the convolution and the norm before it.
  Ref to_previous(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites);
  Ref data_norm(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites);
  /// Through a block's first convolution, where its two paths meet. `before` is null for the first block.
  Gradient data_add(const UnitState& unit, Ref dy, Ref other, const BlockState* before);
  void data_tail(RunGraph run, const BlockState& before, Gradient& gradient);
  Gradient block(const BlockState& block, const Gradient& dy, const BlockState* before);
  void stem(Ref dy);
  Ref vector(const std::string& name, int channels) {
    return step_.tensors().step(name, Element::fp32, channels);
  }
  bool fuses(FusionKind kind, const UnitState& unit) const {
    return step_.settings().fuses(kind, unit.unit->convolution);
  }

  StepEmitter& step_;
  const ForwardState& forward_;
  int loss_done_ = 0;  ///< stamp
};

}  // namespace virtrain::resnet50::cuda
