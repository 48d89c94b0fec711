#pragma once

#include "workloads/resnet50/cuda/writing/step_emitter.h"

namespace virtrain::resnet50::cuda {

/// Writes the forward pass, up to the output of the last block: convolutions, and of their normalizations
/// what the level of fusion leaves to our kernels.
class ForwardPass {
 public:
  explicit ForwardPass(StepEmitter& step) : step_(step) {}
  ForwardState write();

 private:
  UnitState begin_unit(const Unit& unit, const Source& in);
  /// The convolution and the statistics of its output. `factors16`: its reader normalizes it.
  UnitState convolution(const Unit& unit, const Source& in, bool sums_in_graph, bool factors16,
                        const Sites& sites);
  void apply(UnitState& unit, const Sites& sites);
  /// `next`: the block behind it, or null.
  BlockState block(const Block& block, Ref in, const Block* next);
  void stem(ForwardState& state);
  bool fuses(FusionKind kind, const Unit& unit) const {
    return step_.settings().fuses(kind, unit.convolution);
  }

  StepEmitter& step_;
  std::size_t next_unit_ = 0;
};

}  // namespace virtrain::resnet50::cuda
