#pragma once

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/model.h"

/// What the passes of a normalization share: the factors of a thread's channels, and where its gradient comes
/// from.
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
  static constexpr bool is_gathered = false;
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

/// The same where a max-pool follows: gathered from the at most four windows that hold the row's pixel.
template <typename T>
struct PooledGradient {
  static constexpr bool is_gathered = true;
  const void* dy;
  const Positions* position;
  PoolShape shape;

  using Loaded = Floats;
  __device__ Loaded load(int row, int pack, int packs) const {
    constexpr int most_windows = 2;  // in each direction
    const int size = shape.in_size, out = shape.out_size();
    const int image = row / (size * size), y = row / size % size, x = row % size;
    const OutRange rows = windows_of(y, shape), columns = windows_of(x, shape);
    Pack<T> gradients[most_windows * most_windows];
    Positions largest[most_windows * most_windows];
#pragma unroll
    for (int i = 0; i < most_windows * most_windows; ++i) {  // one that is not there: its neighbour again
      const int at_row = min(rows.first + i / most_windows, rows.end - 1);
      const int at_column = min(columns.first + i % most_windows, columns.end - 1);
      const int from = pack_index(image, at_row, at_column, pack, out, packs);
      gradients[i] = load_pack<T>(dy, from);
      largest[i] = position[from];
    }
    Floats sum{};
#pragma unroll
    for (int i = 0; i < most_windows * most_windows; ++i) {
      const int at_row = rows.first + i / most_windows, at_column = columns.first + i % most_windows;
      const bool is_there = at_row < rows.end && at_column < columns.end;
      const int wanted = is_there ? window_position(y, x, at_row, at_column, shape) : no_position - 1;
      const Floats gradient = to_floats(gradients[i]);
#pragma unroll
      for (int c = 0; c < pack_size; ++c) { sum.at[c] += largest[i].at[c] == wanted ? gradient.at[c] : 0.0F; }
    }
    return sum;
  }
  __device__ static Floats values(const Loaded& loaded) { return loaded; }
};

}  // namespace virtrain::resnet50::cuda
