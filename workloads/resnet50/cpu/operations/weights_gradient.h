#pragma once

#include <cstddef>
#include <optional>

#include "workloads/resnet50/cpu/operations/operations.h"
#include "workloads/resnet50/cpu/operations/pixel_pairs.h"

/// The gradient of a convolution's weights in bf16 as one matrix product over the pixels of all images
/// (pixel_pairs.h), for shapes in which oneDNN's stays far below the processor's peak (docs/measurements.md).
namespace virtrain::resnet50::cpu {

class WeightsGradient {
 public:
  /// Null where it does not serve: other shapes, types or layouts, or a processor without the instructions.
  /// Never decided by timing: two runs on one machine must do the same.
  static std::optional<WeightsGradient> make(Device& device, const ConvolutionShape& shape,
                                             const Layout& source, const Layout& destination,
                                             const Layout& master);

  /// With these kernels, whatever oneDNN's speed.
  WeightsGradient(Device& device, const ConvolutionShape& shape, const PixelPairKernels& kernels);

  void run(const Tensor& source, const Tensor& destination_gradient, const Tensor& master_gradient) const;

 private:
  /// Rows of pairs that are multiplied at once, counted over all images.
  struct Panel {
    int first, count;
  };
  Panel panel(int index) const;
  /// Blocks of pairs: those of the inputs, once for each weight of the kernel, then those of the gradients.
  int blocks() const { return inputs_ + out_blocks_; }
  PixelWindow window(int block) const;
  void pair(const std::uint16_t* source, const std::uint16_t* gradient, const Panel& panel, int block,
            std::uint32_t* out) const;
  void multiply(const std::uint32_t* pairs, const Panel& panel, int tile, bool accumulate, float* out) const;

  Device* device_;
  ConvolutionShape shape_;
  const PixelPairKernels* kernels_;
  int out_size_;
  int in_blocks_, out_blocks_;
  int taps_;         ///< weights of the kernel
  int inputs_;       ///< blocks of inputs, once for each of them
  int image_pairs_;  ///< of one image
  int panels_;
};

}  // namespace virtrain::resnet50::cpu
