// Batch normalization around the convolutions. Forward: sums (unless cuDNN's convolution wrote them), apply
// with addition, ReLU and bitmask. Backward: sums, apply. The last block to finish makes the statistics of
// the sums; no block waits for others, so an all-reduce that holds some multiprocessors can delay but never
// stall a pass.
//
// Elements of all 53 outputs at 224 px: 11.1 million per image (fp16: 22 MB). Forward sums read that once,
// apply reads and writes it once; backward reads it four times and writes once.

#include "workloads/resnet50/cuda/kernels/norm.cuh"
#include "workloads/resnet50/cuda/kernels/row_passes.cuh"

namespace virtrain::resnet50::cuda {
namespace {

template <typename T>
struct ForwardValues {
  static constexpr int resident = 4, rows_at_once = rows_in_flight<T, 1>;
  const void* x;
  using Loaded = Pack<T>;
  __device__ Floats origin(int pack) const { return cuda::load<T>(x, pack); }
  __device__ double second_factor(int /*channel*/) const { return 1; }
  __device__ Loaded load(int row, int pack, int packs) const {
    return load_pack<T>(x, static_cast<std::int64_t>(row) * packs + pack);
  }
  __device__ void add(const Loaded& loaded, const Floats& origin, Floats& sum, Floats& square_sum) const {
    const Floats value = to_floats(loaded);
#pragma unroll
    for (int c = 0; c < pack_size; ++c) {
      const float offset = value.at[c] - origin.at[c];
      sum.at[c] += offset;
      square_sum.at[c] += offset * offset;
    }
  }
};

/// Adds an element's dy, and dy times x's distance to the mean.
__device__ inline void add_products(const Floats& dy, const Floats& value, const Floats& origin, Floats& sum,
                                    Floats& product_sum) {
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    sum.at[c] += dy.at[c];
    product_sum.at[c] += dy.at[c] == 0 ? 0 : dy.at[c] * (value.at[c] - origin.at[c]);
  }
}

template <typename T>
struct BackwardValues {
  static constexpr int resident = 3, rows_at_once = rows_in_flight<T, 2>;
  MaskedGradient<T> gradient;
  const void* x;
  const float* mean;
  const float* inverse_std;
  struct Loaded {
    typename MaskedGradient<T>::Loaded gradient;
    Pack<T> x;
  };
  __device__ Floats origin(int pack) const { return cuda::load<float>(mean, pack); }
  __device__ double second_factor(int channel) const { return inverse_std[channel]; }
  __device__ Loaded load(int row, int pack, int packs) const {
    return {gradient.load(row, pack, packs), load_pack<T>(x, static_cast<std::int64_t>(row) * packs + pack)};
  }
  __device__ void add(const Loaded& loaded, const Floats& origin, Floats& sum, Floats& product_sum) const {
    add_products(MaskedGradient<T>::values(loaded.gradient), to_floats(loaded.x), origin, sum, product_sum);
  }
};

/// The same behind a max-pool: a row is a square of four pixels, whose loads need more registers.
template <typename T>
struct PooledBackwardValues {
  static constexpr int resident = 2, rows_at_once = 1;
  using Gradient = PooledGradient<T>;
  Gradient gradient;
  const void* x;
  const float* mean;
  const float* inverse_std;
  struct Loaded {
    typename Gradient::Loaded gradient;
    Pack<T> x[Gradient::pixels];
  };
  __device__ Floats origin(int pack) const { return cuda::load<float>(mean, pack); }
  __device__ double second_factor(int channel) const { return inverse_std[channel]; }
  __device__ Loaded load(int row, int pack, int packs) const {
    Loaded loaded;
    const typename Gradient::Square square = gradient.square(row);
    loaded.gradient = gradient.load(square, pack, packs);
#pragma unroll
    for (int i = 0; i < Gradient::pixels; ++i) {
      loaded.x[i] = load_pack<T>(x, gradient.pixel(square, i, pack, packs));
    }
    return loaded;
  }
  __device__ void add(const Loaded& loaded, const Floats& origin, Floats& sum, Floats& product_sum) const {
#pragma unroll
    for (int i = 0; i < Gradient::pixels; ++i) {
      add_products(Gradient::values(loaded.gradient, i), to_floats(loaded.x[i]), origin, sum, product_sum);
    }
  }
};

/// Mean, deviation and running statistics of a channel from its sums.
template <typename T>
struct FinishForward {
  const void* origin;  ///< null: the sums are those of x itself
  double rows;
  NormVectors vectors;
  T* scale16;
  T* shift16;

  __device__ void operator()(int channel, double sum, double square_sum) const {
    const double from = origin == nullptr ? 0.0 : to_float(static_cast<const T*>(origin)[channel]);
    const Moments batch = moments(sum, square_sum, from, rows, norm_epsilon);
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
    scale16[channel] = from_float<T>(factors.scale);
    shift16[channel] = from_float<T>(factors.shift);
  }
};

/// Gradients of gamma and beta, and the factors of the gradient of x.
struct FinishBackward {
  double rows;
  NormVectors vectors;
  NormGradients out;

  __device__ void operator()(int channel, double sum, double product_sum) const {
    out.beta[channel] = static_cast<float>(sum);
    out.gamma[channel] = static_cast<float>(product_sum);
    out.factors[channel] = backward_factors(vectors.gamma[channel], vectors.mean[channel],
                                            vectors.inverse_std[channel], product_sum, sum, rows);
  }
};

/// From the sums that a graph has written.
template <typename Finish>
__global__ void finish_kernel(Finish finish, const float* first, const float* second, int channels) {
  const int channel = static_cast<int>(global_thread());
  if (channel < channels) { finish(channel, first[channel], second[channel]); }
}

enum class Added { nothing, activation, normalized };

template <typename T, Added added>
struct Apply {
  static constexpr int resident = 3, rows_at_once = rows_in_flight < T, added == Added::nothing ? 1 : 2 > ;
  const void* x;
  NormVectors vectors;
  const void* shortcut;
  NormVectors shortcut_vectors;
  void* y;
  std::uint8_t* mask;

  struct Factors {
    PackFactors own, other;
  };
  struct Loaded {
    Pack<T> x, other;
  };
  __device__ Factors factors(int pack) const {
    Factors factors;
    factors.own = pack_factors(vectors, pack);
    if constexpr (added == Added::normalized) { factors.other = pack_factors(shortcut_vectors, pack); }
    return factors;
  }
  __device__ Loaded load(int row, int pack, int packs) const {
    const std::int64_t at = static_cast<std::int64_t>(row) * packs + pack;
    Loaded loaded;
    loaded.x = load_pack<T>(x, at);
    if constexpr (added != Added::nothing) { loaded.other = load_pack<T>(shortcut, at); }
    return loaded;
  }
  __device__ void store(std::int64_t at, const Loaded& loaded, const Factors& factors) const {
    Floats values = apply_factors(to_floats(loaded.x), factors.own);
    if constexpr (added != Added::nothing) {
      Floats other = to_floats(loaded.other);
      if constexpr (added == Added::normalized) { other = apply_factors(other, factors.other); }
#pragma unroll
      for (int c = 0; c < pack_size; ++c) { values.at[c] += other.at[c]; }
    }
    unsigned bits = 0;
#pragma unroll
    for (int c = 0; c < pack_size; ++c) {
      bits |= static_cast<unsigned>(values.at[c] > 0) << c;
      values.at[c] = values.at[c] < 0 ? 0 : values.at[c];  // written so that a NaN passes
    }
    if (mask != nullptr) { mask[at] = static_cast<std::uint8_t>(bits); }
    cuda::store<T>(y, at, values);
  }
};

/// The gradient of x from that of the norm's output.
__device__ inline Floats apply_backward(const Floats& dy, const Floats& value,
                                        const Pack<BackwardFactors>& factors) {
  Floats out;
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    const BackwardFactors& factor = factors.at[c];
    out.at[c] = factor.dy * dy.at[c] + factor.x * value.at[c] + factor.constant;
  }
  return out;
}

template <typename T>
struct BackwardApply {
  static constexpr int resident = 3, rows_at_once = rows_in_flight<T, 2>;
  MaskedGradient<T> gradient;
  const void* x;
  const BackwardFactors* channel_factors;
  void* dx;
  void* masked;

  using Factors = Pack<BackwardFactors>;
  struct Loaded {
    typename MaskedGradient<T>::Loaded gradient;
    Pack<T> x;
  };
  __device__ Factors factors(int pack) const { return load_pack<BackwardFactors>(channel_factors, pack); }
  __device__ Loaded load(int row, int pack, int packs) const {
    return {gradient.load(row, pack, packs), load_pack<T>(x, static_cast<std::int64_t>(row) * packs + pack)};
  }
  __device__ void store(std::int64_t at, const Loaded& loaded, const Factors& factors) const {
    const Floats dy = MaskedGradient<T>::values(loaded.gradient);
    if (masked != nullptr) { cuda::store<T>(masked, at, dy); }
    cuda::store<T>(dx, at, apply_backward(dy, to_floats(loaded.x), factors));
  }
};

/// The same behind a max-pool: a row is a square of four pixels.
template <typename T>
struct PooledBackwardApply {
  static constexpr int resident = sizeof(T) == sizeof(float) ? 1 : 2, rows_at_once = 1;
  using Gradient = PooledGradient<T>;
  Gradient gradient;
  const void* x;
  const BackwardFactors* channel_factors;
  void* dx;

  using Factors = Pack<BackwardFactors>;
  struct Loaded {
    typename Gradient::Loaded gradient;
    int at[Gradient::pixels];  ///< negative outside the image
    Pack<T> x[Gradient::pixels];
  };
  __device__ Factors factors(int pack) const { return load_pack<BackwardFactors>(channel_factors, pack); }
  __device__ Loaded load(int row, int pack, int packs) const {
    Loaded loaded;
    const typename Gradient::Square square = gradient.square(row);
    loaded.gradient = gradient.load(square, pack, packs);
#pragma unroll
    for (int i = 0; i < Gradient::pixels; ++i) {
      const int at = gradient.pixel(square, i, pack, packs);
      loaded.at[i] = gradient.is_inside(square, i) ? at : -1;
      loaded.x[i] = load_pack<T>(x, at);
    }
    return loaded;
  }
  __device__ void store(std::int64_t /*at*/, const Loaded& loaded, const Factors& factors) const {
#pragma unroll
    for (int i = 0; i < Gradient::pixels; ++i) {
      if (loaded.at[i] < 0) { continue; }
      const Floats dy = Gradient::values(loaded.gradient, i);
      cuda::store<T>(dx, loaded.at[i], apply_backward(dy, to_floats(loaded.x[i]), factors));
    }
  }
};

std::int64_t pixels_of(const PoolShape& shape) {
  return static_cast<std::int64_t>(shape.batch) * shape.in_size * shape.in_size;
}

/// Squares of pixels: as many as outputs.
RowShape squares_of(const PoolShape& shape) {
  return {static_cast<std::int64_t>(shape.batch) * shape.out_size() * shape.out_size(), shape.channels};
}

}  // namespace

void norm_sums(Numeric numeric, const void* x, const RowShape& shape, const PartialSums& partial,
               const NormVectors& vectors, void* scale16, void* shift16, Sweep sweep, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    sum_rows("norm_sums", ForwardValues<T>{x},
             FinishForward<T>{x, static_cast<double>(shape.rows), vectors, static_cast<T*>(scale16),
                              static_cast<T*>(shift16)},
             shape, partial, sweep, stream);
  });
}

void norm_finalize(Numeric numeric, const float* sum, const float* square_sum, const RowShape& shape,
                   const NormVectors& vectors, void* scale16, void* shift16, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    const FinishForward<T> finish{nullptr, static_cast<double>(shape.rows), vectors, static_cast<T*>(scale16),
                                  static_cast<T*>(shift16)};
    launch("norm_finalize", finish_kernel<FinishForward<T>>, blocks_for(shape.channels), block_threads,
           stream, finish, sum, square_sum, shape.channels);
  });
}

void norm_apply(Numeric numeric, const void* x, const RowShape& shape, const NormVectors& vectors,
                const Shortcut& shortcut, void* y, std::uint8_t* mask, Sweep sweep, Stream stream) {
  const NormVectors other = shortcut.norm == nullptr ? NormVectors{} : *shortcut.norm;
  with_element(numeric, [&]<typename T>(T) {
    const auto apply = [&]<Added added>() {
      for_rows("norm_apply", Apply<T, added>{x, vectors, shortcut.values, other, y, mask}, shape, sweep,
               stream);
    };
    if (shortcut.values == nullptr) {
      apply.template operator()<Added::nothing>();
    } else if (shortcut.norm == nullptr) {
      apply.template operator()<Added::activation>();
    } else {
      apply.template operator()<Added::normalized>();
    }
  });
}

void norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                        const RowShape& shape, const NormVectors& vectors, const PartialSums& partial,
                        const NormGradients& out, Sweep sweep, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    sum_rows("norm_backward_sums", BackwardValues<T>{{dy, mask}, x, vectors.mean, vectors.inverse_std},
             FinishBackward{static_cast<double>(shape.rows), vectors, out}, shape, partial, sweep, stream);
  });
}

void norm_backward_finalize(const float* sum, const float* product_sum, const RowShape& shape,
                            const NormVectors& vectors, const NormGradients& out, Stream stream) {
  launch("norm_backward_finalize", finish_kernel<FinishBackward>, blocks_for(shape.channels), block_threads,
         stream, FinishBackward{static_cast<double>(shape.rows), vectors, out}, sum, product_sum,
         shape.channels);
}

void norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                         const RowShape& shape, const BackwardFactors* factors, void* dx, void* masked,
                         Sweep sweep, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    for_rows("norm_backward_apply", BackwardApply<T>{{dy, mask}, x, factors, dx, masked}, shape, sweep,
             stream);
  });
}

void pooled_norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* position, const void* x,
                               const PoolShape& shape, const NormVectors& vectors, const PartialSums& partial,
                               const NormGradients& out, Sweep sweep, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    const PooledGradient<T> gradient{dy, reinterpret_cast<const Positions*>(position), shape};
    sum_rows("pooled_norm_backward_sums",
             PooledBackwardValues<T>{gradient, x, vectors.mean, vectors.inverse_std},
             FinishBackward{static_cast<double>(pixels_of(shape)), vectors, out}, squares_of(shape), partial,
             sweep, stream);
  });
}

void pooled_norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* position, const void* x,
                                const PoolShape& shape, const BackwardFactors* factors, void* dx, Sweep sweep,
                                Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    const PooledGradient<T> gradient{dy, reinterpret_cast<const Positions*>(position), shape};
    for_rows("pooled_norm_backward_apply", PooledBackwardApply<T>{gradient, x, factors, dx},
             squares_of(shape), sweep, stream);
  });
}

}  // namespace virtrain::resnet50::cuda
