#pragma once

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/model.h"

/// Parts that the passes of a normalization share: the factors of a thread's channels, and the source of its
/// gradient.
namespace virtrain::resnet50::cuda {

/// A thread meets the same channels in every row that it handles.
struct PackFactors {
  Floats scale, shift;
};
__device__ inline PackFactors pack_factors(const NormVectors& vectors, int pack) {
  const Floats gamma = load<float>(vectors.gamma, pack), beta = load<float>(vectors.beta, pack);
  const Floats mean = load<float>(vectors.mean, pack);
  const Floats inverse_std = load<float>(vectors.inverse_std, pack);
  PackFactors factors;
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    const ForwardFactors factor = forward_factors(gamma.at[c], beta.at[c], mean.at[c], inverse_std.at[c]);
    factors.scale.at[c] = factor.scale;
    factors.shift.at[c] = factor.shift;
  }
  return factors;
}

__device__ inline Floats apply_factors(Floats values, const PackFactors& factors) {
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    values.at[c] = factors.scale.at[c] * values.at[c] + factors.shift.at[c];
  }
  return values;
}

/// Positions of a pack's maxima in their windows: one load or store of 8 bytes.
struct alignas(pack_size) Positions {
  std::uint8_t at[pack_size];
};

/// The gradient of a norm's output: dy where the mask is set (null: everywhere).
template <typename T>
struct MaskedGradient {
  const void* dy;
  const std::uint8_t* mask;

  struct Loaded {
    Pack<T> dy;
    unsigned bits;
  };
  __device__ Loaded load(int row, int pack, int packs) const {
    const std::int64_t at = static_cast<std::int64_t>(row) * packs + pack;
    return {load_pack<T>(dy, at), mask == nullptr ? 0xffU : mask[at]};
  }
  __device__ static Floats values(const Loaded& loaded) {
    Floats gradient = to_floats(loaded.dy);
#pragma unroll
    for (int c = 0; c < pack_size; ++c) {
      if ((loaded.bits >> c & 1U) == 0) { gradient.at[c] = 0; }
    }
    return gradient;
  }
};

/// The same where a max-pool follows, for squares of two by two pixels: the windows of four outputs hold all
/// of a square's gradients, so each of these is loaded for four pixels at once.
template <typename T>
struct PooledGradient {
  static constexpr int side = PoolShape::stride, pixels = side * side;
  const void* dy;
  const Positions* position;
  PoolShape shape;

  /// A square begins at (side * row, side * column), and its first window is that of output (row, column).
  struct Square {
    int image, row, column;
  };
  struct Loaded {
    Pack<T> gradients[pixels];
    Positions largest[pixels];
  };
  __device__ Square square(int index) const {
    const int out = shape.out_size();
    return {index / (out * out), index / out % out, index % out};
  }
  /// Where pixel `i` of a square lies, in packs; of one outside an odd image: its neighbour's.
  __device__ int pixel(const Square& square, int i, int pack, int packs) const {
    const int row = min(side * square.row + i / side, shape.in_size - 1);
    const int column = min(side * square.column + i % side, shape.in_size - 1);
    return pack_index(square.image, row, column, pack, shape.in_size, packs);
  }
  __device__ bool is_inside(const Square& square, int i) const {
    return side * square.row + i / side < shape.in_size && side * square.column + i % side < shape.in_size;
  }
  /// A window that is not there has no position, and so no gradient.
  __device__ Loaded load(const Square& square, int pack, int packs) const {
    const int out = shape.out_size();
    Loaded loaded;
#pragma unroll
    for (int i = 0; i < pixels; ++i) {
      const int row = square.row + i / side, column = square.column + i % side;
      loaded.gradients[i] = {};
      loaded.largest[i] = {no_position, no_position, no_position, no_position,
                           no_position, no_position, no_position, no_position};
      if (row >= out || column >= out) { continue; }
      const int from = pack_index(square.image, row, column, pack, out, packs);
      loaded.gradients[i] = load_pack<T>(dy, from);
      loaded.largest[i] = position[from];
    }
    return loaded;
  }
  /// Gradient of pixel `i` of the square. A pixel outside the image has none, because no window took its
  /// maximum there.
  __device__ static Floats values(const Loaded& loaded, int i) {
    Floats sum{};
#pragma unroll
    for (int w = 0; w < pixels; ++w) {
      const int row = w / side, column = w % side;
      if (!is_in_window(i / side, row) || !is_in_window(i % side, column)) { continue; }
      const int wanted =
          place_in_window(i / side, row) * PoolShape::kernel + place_in_window(i % side, column);
      const Floats gradient = to_floats(loaded.gradients[w]);
#pragma unroll
      for (int c = 0; c < pack_size; ++c) {
        sum.at[c] += loaded.largest[w].at[c] == wanted ? gradient.at[c] : 0.0F;
      }
    }
    return sum;
  }
};

}  // namespace virtrain::resnet50::cuda
