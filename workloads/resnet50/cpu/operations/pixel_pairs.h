#pragma once

#include <cstddef>
#include <cstdint>

/// The inner loops of the gradient of a convolution's weights in bf16, a matrix product over pixels:
/// AVX-512's instruction for bf16 adds up the products of two neighbours, so two pixels go together.
/// Activations come in blocks of 16 channels (nChw16c), the fp32 gradients in blocks of 16 x 16 (OIhw16i16o).
namespace virtrain::resnet50::cpu {

/// Channels of a block.
constexpr std::ptrdiff_t pair_lanes = 16;

/// Which pixel of an image meets an output: row * stride + first_row, column * stride + first_column; zeros
/// outside the image.
struct PixelWindow {
  int in_size, out_size, stride, first_row, first_column;
  bool is_every_pixel() const {
    return stride == 1 && first_row == 0 && first_column == 0 && in_size == out_size;
  }
};

/// A pair holds the pixels of outputs 2 i and 2 i + 1, the first in the lower half; a last single one meets
/// 0.
struct PixelPairKernels {
  /// One block of channels of an image: pairs [first, first + count), a row of 16 each.
  void (*pair)(const std::uint16_t* plane, const PixelWindow& window, int first, int count,
               std::uint32_t* out);

  /// One block of inputs with two of gradients, `gradient_step` values apart: out (16 x 16) and the block
  /// `out_step` behind it = (accumulate ? themselves : 0) + the sums over so many rows of pairs.
  void (*multiply)(const std::uint32_t* inputs, const std::uint32_t* gradients, std::size_t gradient_step,
                   int pairs, bool accumulate, float* out, std::size_t out_step);
};

extern const PixelPairKernels pixel_pairs_avx512_bf16;  ///< needs AVX-512 F, BW, VL and BF16

}  // namespace virtrain::resnet50::cpu
