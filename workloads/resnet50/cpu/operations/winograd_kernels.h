#pragma once

#include <array>
#include <cstddef>

/// The inner loops of Winograd's convolution, once for each vector width. Activations come in blocks of
/// `lanes` channels (nChw8c, nChw16c), weights in blocks of lanes x lanes (OIhw8i8o, OIhw16i16o).
///
/// A tile is 4 x 4 (or 2 x 2) outputs; its products, 36 instead of 144 (16 instead of 36), are of as many
/// values made from the 6 x 6 (4 x 4) inputs around it and from the weights: F(4x4, 3x3) and F(2x2, 3x3) of
/// Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015. The gradient of the weights
/// takes the same points with 3 x 3 outputs, F(3x3, 4x4) and F(3x3, 2x2), so the inputs are spread in the
/// same way.
namespace virtrain::resnet50::cpu {

/// The upper left output of a tile, in an image of size x size; outside the image are zeros.
struct TilePlace {
  int row, column, size;
};

/// A matrix in rows, and how far apart they are.
template <typename T>
struct Rows {
  T* data;
  std::size_t stride;
};

/// Matrices of a product lie `stride` floats behind each other where one is named.
struct WinogradKernels {
  int tile;      ///< outputs along its side
  int products;  ///< multiplications of a tile
  int lanes;     ///< channels of a block
  int panel;     ///< columns that a multiplication makes at once
  int rows;      ///< rows it makes at once: `multiply` takes multiples of it

  /// One block of channels of a tile: the inputs around it, one value into each matrix.
  void (*spread_input)(const float* plane, TilePlace place, float* out, std::size_t stride);
  /// The tile's own values, for the gradient of the weights.
  void (*spread_gradient)(const float* plane, TilePlace place, float* out, std::size_t stride);
  /// One block of weights; row r of it goes to out + r * panel. `backward`: columns are the input channels,
  /// and the kernel is turned round.
  void (*spread_weights)(const float* block, bool backward, float* out, std::size_t stride);
  /// The products into the tile's outputs, those inside the image.
  void (*gather_output)(const float* in, std::size_t stride, TilePlace place, float* plane);
  /// Into one block of the weights' gradient; rows of `in` are input channels.
  void (*gather_weights)(Rows<const float> in, std::size_t stride, float* block);

  /// out = a b, a panel of columns. a: rows x depth; b: depth x panel, dense.
  void (*multiply)(Rows<const float> a, int rows, int depth, const float* b, Rows<float> out);
  /// out = (accumulate ? out : 0) + transposed(a) b. a: depth x columns; b: depth x panel; out: columns x
  /// panel.
  void (*multiply_transposed)(Rows<const float> a, int columns, int depth, Rows<const float> b,
                              bool accumulate, Rows<float> out);
};

/// Tiles of four outputs a side, and of two.
using WinogradKernelSet = std::array<WinogradKernels, 2>;
extern const WinogradKernelSet winograd_avx2;    ///< 8 lanes; needs AVX2 and FMA
extern const WinogradKernelSet winograd_avx512;  ///< 16 lanes; needs AVX-512F and VL

}  // namespace virtrain::resnet50::cpu
