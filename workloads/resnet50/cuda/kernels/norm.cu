// Batch normalization around the convolutions. Forward: sums (unless cuDNN's convolution wrote them),
// finalize, apply with addition, ReLU and bitmask. Backward: sums, finalize, apply. No pass waits for other
// blocks of its grid, so an all-reduce that holds some multiprocessors can delay but never stall it.
//
// Elements of all 53 outputs at 224 px: 11.1 million per image (fp16: 22 MB). Forward sums read that once,
// apply reads and writes it once; backward reads it four times and writes once.

#include <numeric>

#include "workloads/resnet50/cuda/kernels/column_sums.cuh"
#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cuda {
namespace {

constexpr int most_lanes = 32;  ///< packs of channels side by side in a block

__host__ __device__ int lanes_of(int packs) {
  return packs < most_lanes ? packs : most_lanes;
}

/// One bit per element of a pack; without a mask all of them pass.
__device__ unsigned mask_bits(const std::uint8_t* mask, std::int64_t pack) {
  return mask == nullptr ? 0xffU : mask[pack];
}

/// What the threads of a block have added up, before their row lanes are added.
struct RowLanes {
  float first[block_threads * pack_size];
  float second[block_threads * pack_size];
};

/// Adds up two values per element over the rows. Each thread takes every (row lanes x blocks)-th row; then
/// the row lanes of a block are added in order. `Values` gives the two values of an element, from its
/// distance to the channel's origin, and what the second is multiplied with in the end.
template <typename Values>
__global__ void sum_rows_kernel(Values values, RowShape shape, PartialSums partial) {
  RowLanes& sums = block_shared<RowLanes>();
  const int packs = shape.channels / pack_size;
  const int lanes = lanes_of(packs);
  const int row_lanes = block_threads / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int row_lane = static_cast<int>(threadIdx.x) / lanes;
  const int pack = static_cast<int>(blockIdx.y) * lanes + lane;
  Floats first{};
  Floats second{};
  if (row_lane < row_lanes && pack < packs) {
    const Floats origin = values.origin(pack);
    // Counted in advance and in 32 bits (no tensor has 2^31 elements), so that several rows are under way.
    const unsigned rows = static_cast<unsigned>(shape.rows);
    const unsigned first_row = blockIdx.x * row_lanes + row_lane;
    const unsigned stride = gridDim.x * row_lanes;
    const unsigned count = first_row < rows ? (rows - first_row - 1) / stride + 1 : 0;
#pragma unroll 4
    for (unsigned i = 0; i < count; ++i) {
      const std::int64_t row = first_row + i * stride;
      values.add(row * packs + pack, origin, first, second);
    }
  }
  for (int c = 0; c < pack_size; ++c) {
    sums.first[threadIdx.x * pack_size + c] = first.at[c];
    sums.second[threadIdx.x * pack_size + c] = second.at[c];
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < lanes * pack_size; c += block_threads) {
    const int channel = static_cast<int>(blockIdx.y) * lanes * pack_size + c;
    if (channel >= shape.channels) { continue; }
    float first_sum = 0;
    float second_sum = 0;
    for (int r = 0; r < row_lanes; ++r) {
      first_sum += sums.first[r * lanes * pack_size + c];
      second_sum += sums.second[r * lanes * pack_size + c];
    }
    const std::int64_t out = static_cast<std::int64_t>(blockIdx.x) * shape.channels + channel;
    partial.first[out] = first_sum;
    partial.second[out] = second_sum * values.second_factor(channel);
  }
}

template <typename Values>
void sum_rows(const char* name, const Values& values, const RowShape& shape, const PartialSums& partial,
              Stream stream) {
  require_packs(name, shape.channels);
  const int packs = shape.channels / pack_size;
  const int lanes = lanes_of(packs);
  const dim3 grid(static_cast<unsigned>(partial.blocks), static_cast<unsigned>((packs + lanes - 1) / lanes));
  launch(name, sum_rows_kernel<Values>, grid, block_threads, stream, values, shape, partial);
}

template <typename T>
struct ForwardValues {
  const void* x;
  __device__ Floats origin(int pack) const { return load<T>(x, pack); }
  __device__ float second_factor(int /*channel*/) const { return 1; }
  __device__ void add(std::int64_t at, const Floats& origin, Floats& sum, Floats& square_sum) const {
    const Floats value = load<T>(x, at);
    for (int c = 0; c < pack_size; ++c) {
      const float offset = value.at[c] - origin.at[c];
      sum.at[c] += offset;
      square_sum.at[c] += offset * offset;
    }
  }
};

template <typename T>
struct BackwardValues {
  const void* dy;
  const std::uint8_t* mask;
  const void* x;
  const float* mean;
  const float* inverse_std;
  __device__ Floats origin(int pack) const { return load<float>(mean, pack); }
  __device__ float second_factor(int channel) const { return inverse_std[channel]; }
  __device__ void add(std::int64_t at, const Floats& origin, Floats& sum, Floats& product_sum) const {
    const Floats gradient = load<T>(dy, at);
    const Floats value = load<T>(x, at);
    const unsigned bits = mask_bits(mask, at);
    for (int c = 0; c < pack_size; ++c) {
      if ((bits >> c & 1U) == 0) { continue; }
      sum.at[c] += gradient.at[c];
      product_sum.at[c] += gradient.at[c] * (value.at[c] - origin.at[c]);
    }
  }
};

/// Both sums of this thread's channel over all blocks of sum_rows_kernel (or cuDNN's one row).
__device__ bool add_blocks(const PartialSums& partial, int channels, ColumnSums<2>& sums) {
  const int channel = column_of_thread();
  const auto values_of = [&](int block) {
    const std::int64_t at = static_cast<std::int64_t>(block) * channels + channel;
    return ColumnSums<2>{{partial.first[at], partial.second[at]}};
  };
  return sum_column(partial.blocks, channels, values_of, sums);
}

template <typename T>
__global__ void finalize_kernel(const void* origin, PartialSums partial, RowShape shape, NormVectors vectors,
                                __half* scale16, __half* shift16) {
  ColumnSums<2> sums;
  if (!add_blocks(partial, shape.channels, sums)) { return; }
  const int channel = column_of_thread();
  const double from = origin == nullptr ? 0.0 : to_float(static_cast<const T*>(origin)[channel]);
  const Moments batch = moments(sums.at[0], sums.at[1], from, static_cast<double>(shape.rows), norm_epsilon);
  vectors.mean[channel] = batch.mean;
  vectors.inverse_std[channel] = batch.inverse_std;
  constexpr float momentum = static_cast<float>(norm_momentum);
  float& mean = vectors.running_mean[channel];
  float& variance = vectors.running_variance[channel];
  mean = (1 - momentum) * mean + momentum * batch.mean;
  variance = (1 - momentum) * variance + momentum * batch.unbiased_variance;
  if (scale16 == nullptr) { return; }
  const ForwardFactors factors =
      forward_factors(vectors.gamma[channel], vectors.beta[channel], batch.mean, batch.inverse_std);
  scale16[channel] = __float2half_rn(factors.scale);
  shift16[channel] = __float2half_rn(factors.shift);
}

/// The factors of a thread's channels: it meets the same ones in every row it handles.
struct PackFactors {
  Floats scale, shift;
};
__device__ PackFactors pack_factors(const NormVectors& vectors, int pack) {
  const Floats gamma = load<float>(vectors.gamma, pack), beta = load<float>(vectors.beta, pack);
  const Floats mean = load<float>(vectors.mean, pack);
  const Floats inverse_std = load<float>(vectors.inverse_std, pack);
  PackFactors factors;
  for (int c = 0; c < pack_size; ++c) {
    const ForwardFactors factor = forward_factors(gamma.at[c], beta.at[c], mean.at[c], inverse_std.at[c]);
    factors.scale.at[c] = factor.scale;
    factors.shift.at[c] = factor.shift;
  }
  return factors;
}

__device__ Floats apply_factors(Floats values, const PackFactors& factors) {
  for (int c = 0; c < pack_size; ++c) {
    values.at[c] = factors.scale.at[c] * values.at[c] + factors.shift.at[c];
  }
  return values;
}

enum class Added { nothing, activation, normalized };

template <typename T, Added added>
__global__ void apply_kernel(const void* x, RowShape shape, NormVectors vectors, const void* shortcut,
                             NormVectors shortcut_vectors, void* y, std::uint8_t* mask) {
  const int packs = shape.channels / pack_size;
  const int pack = static_cast<int>(global_thread() % packs);
  const PackFactors factors = pack_factors(vectors, pack);
  PackFactors other_factors;
  if constexpr (added == Added::normalized) { other_factors = pack_factors(shortcut_vectors, pack); }
  for (std::int64_t at = global_thread(); at < shape.rows * packs; at += thread_count()) {
    Floats values = apply_factors(load<T>(x, at), factors);
    if constexpr (added != Added::nothing) {
      Floats other = load<T>(shortcut, at);
      if constexpr (added == Added::normalized) { other = apply_factors(other, other_factors); }
      for (int c = 0; c < pack_size; ++c) { values.at[c] += other.at[c]; }
    }
    if (mask != nullptr) {
      unsigned bits = 0;
      for (int c = 0; c < pack_size; ++c) {
        bits |= static_cast<unsigned>(values.at[c] > 0) << c;
        values.at[c] = values.at[c] < 0 ? 0 : values.at[c];  // written so that a NaN passes
      }
      mask[at] = static_cast<std::uint8_t>(bits);
    }
    store<T>(y, at, values);
  }
}

__global__ void backward_finalize_kernel(PartialSums partial, RowShape shape, NormVectors vectors,
                                         float* gamma_grad, float* beta_grad, BackwardFactors* factors) {
  ColumnSums<2> sums;
  if (!add_blocks(partial, shape.channels, sums)) { return; }
  const int channel = column_of_thread();
  beta_grad[channel] = static_cast<float>(sums.at[0]);
  gamma_grad[channel] = static_cast<float>(sums.at[1]);
  factors[channel] =
      backward_factors(vectors.gamma[channel], vectors.mean[channel], vectors.inverse_std[channel],
                       sums.at[1], sums.at[0], static_cast<double>(shape.rows));
}

template <typename T>
__global__ void backward_apply_kernel(const void* dy, const std::uint8_t* mask, const void* x, RowShape shape,
                                      const BackwardFactors* factors, void* dx, void* masked) {
  const int packs = shape.channels / pack_size;
  const Pack<BackwardFactors> own =
      reinterpret_cast<const Pack<BackwardFactors>*>(factors)[global_thread() % packs];
  for (std::int64_t at = global_thread(); at < shape.rows * packs; at += thread_count()) {
    Floats gradient = load<T>(dy, at);
    const Floats value = load<T>(x, at);
    const unsigned bits = mask_bits(mask, at);
    Floats out;
    for (int c = 0; c < pack_size; ++c) {
      if ((bits >> c & 1U) == 0) { gradient.at[c] = 0; }
      const BackwardFactors& factor = own.at[c];
      out.at[c] = factor.dy * gradient.at[c] + factor.x * value.at[c] + factor.constant;
    }
    if (masked != nullptr) { store<T>(masked, at, gradient); }
    store<T>(dx, at, out);
  }
}

/// Blocks for about eight packs a thread, so many that a thread always meets the same channels: all threads
/// together are a multiple of the packs of a row.
unsigned row_blocks(const RowShape& shape) {
  constexpr std::int64_t packs_per_thread = 8;
  const int packs = shape.channels / pack_size;
  const std::int64_t wanted = blocks_for((shape.rows * packs + packs_per_thread - 1) / packs_per_thread);
  const std::int64_t unit = packs / std::gcd(packs, block_threads);
  return static_cast<unsigned>((wanted + unit - 1) / unit * unit);
}

}  // namespace

int partial_blocks(const RowShape& shape) {
  const int lanes = lanes_of(shape.channels / pack_size);
  constexpr std::int64_t rows_per_thread = 16;
  const std::int64_t rows_per_block = rows_per_thread * (block_threads / lanes);
  return static_cast<int>(
      std::clamp<std::int64_t>((shape.rows + rows_per_block - 1) / rows_per_block, 1, most_partial_blocks));
}

void norm_sums(Numeric numeric, const void* x, const RowShape& shape, const PartialSums& partial,
               Stream stream) {
  with_element(numeric,
               [&]<typename T>(T) { sum_rows("norm_sums", ForwardValues<T>{x}, shape, partial, stream); });
}

void norm_finalize(Numeric numeric, const void* origin, const PartialSums& partial, const RowShape& shape,
                   const NormVectors& vectors, void* scale16, void* shift16, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("norm_finalize", finalize_kernel<T>, column_blocks(shape.channels), block_threads, stream, origin,
           partial, shape, vectors, static_cast<__half*>(scale16), static_cast<__half*>(shift16));
  });
}

void norm_apply(Numeric numeric, const void* x, const RowShape& shape, const NormVectors& vectors,
                const Shortcut& shortcut, void* y, std::uint8_t* mask, Stream stream) {
  require_packs("norm_apply", shape.channels);
  const unsigned blocks = row_blocks(shape);
  with_element(numeric, [&]<typename T>(T) {
    if (shortcut.values == nullptr) {
      launch("norm_apply", apply_kernel<T, Added::nothing>, blocks, block_threads, stream, x, shape, vectors,
             nullptr, {}, y, mask);
    } else if (shortcut.norm == nullptr) {
      launch("norm_apply", apply_kernel<T, Added::activation>, blocks, block_threads, stream, x, shape,
             vectors, shortcut.values, {}, y, mask);
    } else {
      launch("norm_apply", apply_kernel<T, Added::normalized>, blocks, block_threads, stream, x, shape,
             vectors, shortcut.values, *shortcut.norm, y, mask);
    }
  });
}

void norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                        const RowShape& shape, const NormVectors& vectors, const PartialSums& partial,
                        Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    sum_rows("norm_backward_sums", BackwardValues<T>{dy, mask, x, vectors.mean, vectors.inverse_std}, shape,
             partial, stream);
  });
}

void norm_backward_finalize(const PartialSums& partial, const RowShape& shape, const NormVectors& vectors,
                            float* gamma_grad, float* beta_grad, BackwardFactors* factors, Stream stream) {
  launch("norm_backward_finalize", backward_finalize_kernel, column_blocks(shape.channels), block_threads,
         stream, partial, shape, vectors, gamma_grad, beta_grad, factors);
}

void norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                         const RowShape& shape, const BackwardFactors* factors, void* dx, void* masked,
                         Stream stream) {
  require_packs("norm_backward_apply", shape.channels);
  const unsigned blocks = row_blocks(shape);
  with_element(numeric, [&]<typename T>(T) {
    launch("norm_backward_apply", backward_apply_kernel<T>, blocks, block_threads, stream, dy, mask, x, shape,
           factors, dx, masked);
  });
}

}  // namespace virtrain::resnet50::cuda
