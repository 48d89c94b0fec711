#pragma once

#include <cstddef>
#include <optional>

#include "workloads/resnet50/cpu/operations/operations.h"
#include "workloads/resnet50/cpu/operations/winograd_kernels.h"

/// 3 x 3 convolutions with stride 1 in a quarter of the multiplications (see winograd_kernels.h). The direct
/// ones of oneDNN run near the processor's peak, so fewer multiplications are all that is left to gain.
namespace virtrain::resnet50::cpu {

class WinogradConvolution {
 public:
  /// Null where it does not serve: other kernels, strides or types, layouts not in blocks of this processor's
  /// vectors, or so few tiles that spreading the weights costs more than it saves. Depends on shape and
  /// processor alone, never on timing: two runs on one machine must do the same.
  static std::optional<WinogradConvolution> make(Device& device, const ConvolutionShape& shape,
                                                 const Layout& source, const Layout& destination,
                                                 const Layout& master);

  /// With these kernels, whose blocks the tensors have.
  static std::optional<WinogradConvolution> make(Device& device, const ConvolutionShape& shape,
                                                 const WinogradKernelSet& kernels);

  void forward(const Tensor& source, const Tensor& master, const Tensor& destination) const;
  void backward_data(const Tensor& destination_gradient, const Tensor& master,
                     const Tensor& source_gradient) const;
  void backward_weights(const Tensor& source, const Tensor& destination_gradient,
                        const Tensor& master_gradient) const;

 private:
  /// Tiles [first, first + count) of all images, in the order of their places.
  struct Tiles {
    int first, count;
  };
  /// One matrix a product, of so many rows and channels.
  struct Matrices {
    float* data;
    std::size_t stride;
    int channels;
    Rows<float> product(int index) const;
  };
  using Spread = void (*)(const float*, TilePlace, float*, std::size_t);

  WinogradConvolution(Device& device, const ConvolutionShape& shape, const WinogradKernels& kernels);

  void convolve(const Tensor& from, int from_channels, const Tensor& master, bool backward, const Tensor& to,
                int to_channels) const;
  Matrices matrices(Scratch slot, int rows, int channels) const;
  /// Panels of columns behind each other.
  Matrices spread_weights(const Tensor& master, bool backward) const;
  void spread(Spread kernel, const float* tensor, Tiles tiles, const Matrices& out) const;
  void gather(const Matrices& in, Tiles tiles, float* tensor) const;
  void gather_weights(const Matrices& in, float* gradient) const;
  std::int64_t multiplications() const { return std::int64_t{tiles_} * kernels_->products; }
  TilePlace place(int tile) const;
  const float* plane(const float* tensor, int channels, int tile, std::ptrdiff_t block) const;
  int tiles_at_once(int channels) const;

  Device* device_;
  ConvolutionShape shape_;
  const WinogradKernels* kernels_;
  int side_;   ///< tiles along a side of an image
  int tiles_;  ///< of all images
};

}  // namespace virtrain::resnet50::cpu
