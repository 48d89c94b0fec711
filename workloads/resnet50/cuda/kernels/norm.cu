// Batch normalization around the convolutions. Forward: sums (unless cuDNN's convolution wrote them), apply
// with addition, ReLU and bitmask. Backward: sums, apply. The last block to finish makes the statistics of
// the sums; no block waits for others, so an all-reduce that holds some multiprocessors can delay but never
// stall a pass.
//
// Elements of all 53 outputs at 224 px: 11.1 million per image (fp16: 22 MB). Forward sums read that once,
// apply reads and writes it once; backward reads it four times and writes once.

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/cuda/kernels/norm.cuh"

namespace virtrain::resnet50::cuda {

// Passes over rows of channels: one that adds up, of which the last blocks finish the sums, and one that
// handles each element.

inline constexpr int most_lanes = 32;     ///< packs of channels side by side in a block
inline constexpr int rows_of_thread = 8;  ///< where there are enough of them
/// Rows of partial sums that a thread loads before it adds the first: each trip to the cache of level 2 takes
/// 0.6 to 0.8 µs, which nothing hides at the end of a pass.
inline constexpr int partial_rows_in_flight = 16;

/// Rows of so many tensors that a thread loads at once: about 64 bytes are under way, of fp32 as of others.
template <typename T, int tensors>
constexpr int rows_in_flight = loads_in_flight * 2 / static_cast<int>(sizeof(T)) / tensors;

/// How a block's threads lie on rows of channels: up to 32 packs of channels side by side, the rest of the
/// threads on further rows. A tile is what they load at once; tiles follow each other in memory.
struct Tiling {
  int rows, packs, lanes, row_lanes, groups, tile_rows, tiles;

  __host__ __device__ Tiling(const RowShape& shape, int rows_at_once)
      : rows(static_cast<int>(shape.rows)),
        packs(shape.channels / pack_size),
        lanes(packs < most_lanes ? packs : most_lanes),
        row_lanes(block_threads / lanes),
        groups((packs + lanes - 1) / lanes),
        tile_rows(row_lanes * rows_at_once),
        tiles((rows + tile_rows - 1) / tile_rows) {}
};

/// The part of the tensor that this thread handles. Blocks of one place in memory are neighbours, so that
/// memory is swept once.
struct Place {
  int group, chunk, chunks, row_lane, pack;
  bool works;

  __device__ explicit Place(const Tiling& tiling)
      : group(static_cast<int>(blockIdx.x) % tiling.groups),
        chunk(static_cast<int>(blockIdx.x) / tiling.groups),
        chunks(static_cast<int>(gridDim.x) / tiling.groups),
        row_lane(static_cast<int>(threadIdx.x) / tiling.lanes),
        pack(group * tiling.lanes + static_cast<int>(threadIdx.x) % tiling.lanes),
        works(row_lane < tiling.row_lanes && pack < tiling.packs) {}
};

/// Sums of a block's threads, before their row lanes are added.
struct RowLanes {
  float first[block_threads * pack_size];
  float second[block_threads * pack_size];
};
struct SumLanes {
  double first[block_threads];
  double second[block_threads];
};
struct LastFlag {
  bool is_last;
};

/// True in all threads of the block that comes last of `count`: it sees what the others have written.
__device__ inline bool comes_last(int* ticket, int count) {
  LastFlag& flag = block_shared<LastFlag>();
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    flag.is_last = atomicAdd(ticket, 1) == count - 1;
    if (flag.is_last) { *ticket = 0; }  // for the next pass
  }
  __syncthreads();
  __threadfence();
  return flag.is_last;
}

/// Adds up `count` rows of partial sums, `step` rows apart, for a block's channels; use(channel, sum, sum) in
/// one thread of each. In a fixed order.
template <typename Use>
__device__ void add_partial(const PartialSums& partial, int channels, const Tiling& tiling, int group,
                            int first_row, int step, int count, const Use& use) {
  SumLanes& lanes = block_shared<SumLanes>();
  const int width = tiling.lanes * pack_size;
  const int column = static_cast<int>(threadIdx.x) % width, lane = static_cast<int>(threadIdx.x) / width;
  const int all_lanes = block_threads / width, channel = group * width + column;
  const bool works = lane < all_lanes && channel < channels;
  double first = 0, second = 0;
  for (int i = lane; i < (works ? count : 0); i += all_lanes * partial_rows_in_flight) {
    float firsts[partial_rows_in_flight], seconds[partial_rows_in_flight];
#pragma unroll
    for (int k = 0; k < partial_rows_in_flight; ++k) {
      const int row = i + k * all_lanes;
      const bool is_there = row < count;
      const std::int64_t at = static_cast<std::int64_t>(first_row + row * step) * channels + channel;
      firsts[k] = is_there ? __ldcg(partial.first + at) : 0.0F;
      seconds[k] = is_there ? __ldcg(partial.second + at) : 0.0F;
    }
    asm volatile("" ::: "memory");  // else the compiler moves each load to where it is used
#pragma unroll
    for (int k = 0; k < partial_rows_in_flight; ++k) {
      first += firsts[k];
      second += seconds[k];
    }
  }
  lanes.first[threadIdx.x] = first;
  lanes.second[threadIdx.x] = second;
  __syncthreads();
  if (!works || lane != 0) { return; }
  for (int other = 1; other < all_lanes; ++other) {
    first += lanes.first[other * width + column];
    second += lanes.second[other * width + column];
  }
  use(channel, first, second);
}

/// The block's sums into its row of the partial sums; then whoever comes last adds them up, a batch of blocks
/// and at last all batches, and finishes.
template <typename Values, typename Finish>
__device__ void add_blocks(const Values& values, const Finish& finish, const PartialSums& partial,
                           int channels, const Tiling& tiling, const Place& place) {
  const RowLanes& sums = block_shared<RowLanes>();
  const int width = tiling.lanes * pack_size;
  for (int c = static_cast<int>(threadIdx.x); c < width; c += block_threads) {
    const int channel = place.group * width + c;
    if (channel >= channels) { continue; }
    float first = 0, second = 0;
    for (int r = 0; r < tiling.row_lanes; ++r) {
      first += sums.first[r * width + c];
      second += sums.second[r * width + c];
    }
    const std::int64_t out = static_cast<std::int64_t>(place.chunk) * channels + channel;
    partial.first[out] = first;
    partial.second[out] = second;
  }
  int* const tickets = partial.tickets + place.group * tickets_of_group;
  const int batch = place.chunk / blocks_of_batch, first_row = batch * blocks_of_batch;
  const int batches = (place.chunks + blocks_of_batch - 1) / blocks_of_batch;
  const int in_batch = min(blocks_of_batch, place.chunks - first_row);
  if (!comes_last(tickets + 1 + batch, in_batch)) { return; }
  add_partial(partial, channels, tiling, place.group, first_row, 1, in_batch,
              [&](int channel, double first, double second) {
                const std::int64_t out = static_cast<std::int64_t>(first_row) * channels + channel;
                partial.first[out] = static_cast<float>(first);
                partial.second[out] = static_cast<float>(second);
              });
  if (!comes_last(tickets, batches)) { return; }
  add_partial(partial, channels, tiling, place.group, 0, blocks_of_batch, batches,
              [&](int channel, double first, double second) {
                finish(channel, first, second * values.second_factor(channel));
              });
}

/// Adds up two values per element over the rows. `Values` loads an element and gives its two values, from its
/// distance to the channel's origin, and what the second is multiplied with in the end.
template <typename Values, typename Finish>
__global__ void __launch_bounds__(block_threads, Values::resident)
    sum_rows_kernel(Values values, Finish finish, RowShape shape, PartialSums partial, Sweep sweep) {
  RowLanes& sums = block_shared<RowLanes>();
  const Tiling tiling(shape, Values::rows_at_once);
  const Place place(tiling);
  Floats first{};
  Floats second{};
  if (place.works) {
    const Floats origin = values.origin(place.pack);
    for (int i = place.chunk; i < tiling.tiles; i += place.chunks) {
      const int tile = sweep == Sweep::descending ? tiling.tiles - 1 - i : i;
      use_loaded<Values::rows_at_once>(
          tile * tiling.tile_rows + place.row_lane, tiling.row_lanes,
          min(tiling.rows, (tile + 1) * tiling.tile_rows),
          [&](int row) { return values.load(row, place.pack, tiling.packs); },
          [&](int, const typename Values::Loaded& loaded) { values.add(loaded, origin, first, second); });
    }
  }
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    sums.first[threadIdx.x * pack_size + c] = first.at[c];
    sums.second[threadIdx.x * pack_size + c] = second.at[c];
  }
  __syncthreads();
  add_blocks(values, finish, partial, shape.channels, tiling, place);
}

/// Blocks: as many as the GPU holds, since each of them lengthens the sums over blocks; of small shapes
/// fewer, each with eight rows a thread at least.
template <typename Values, typename Finish>
void sum_rows(const char* name, const Values& values, const Finish& finish, const RowShape& shape,
              const PartialSums& partial, Sweep sweep, Stream stream) {
  require_packs(name, shape.channels);
  const Tiling tiling(shape, Values::rows_at_once);
  const int most =
      std::min(most_partial_blocks, resident_blocks(sum_rows_kernel<Values, Finish>, block_threads));
  const int chunks = std::clamp((tiling.tiles * Values::rows_at_once + rows_of_thread - 1) / rows_of_thread,
                                1, std::max(1, most / tiling.groups));
  if (tiling.groups > most_channel_groups) {
    throw Error(std::string("launch ") + name, ErrorCode::usage,
                std::to_string(shape.channels) + " channels are too many");
  }
  launch(name, sum_rows_kernel<Values, Finish>, static_cast<unsigned>(chunks * tiling.groups), block_threads,
         stream, values, finish, shape, partial, sweep);
}

/// Handles each element of the rows once. `Work` has the factors of a thread's channels, loads an element and
/// stores what becomes of it.
template <typename Work>
__global__ void __launch_bounds__(block_threads, Work::resident)
    rows_kernel(Work work, RowShape shape, Sweep sweep) {
  const Tiling tiling(shape, Work::rows_at_once);
  const Place place(tiling);
  if (!place.works) { return; }
  const auto factors = work.factors(place.pack);
  if constexpr (requires { work.finish(place.pack); }) {
    if (place.chunk == 0 && place.row_lane == 0) { work.finish(place.pack); }
  }
  const int chunk = sweep == Sweep::descending ? place.chunks - 1 - place.chunk : place.chunk;
  constexpr int tiles = rows_of_thread / Work::rows_at_once;
  for (int i = 0; i < tiles; ++i) {
    const int first = (chunk * tiles + i) * tiling.tile_rows;
    use_loaded<Work::rows_at_once>(
        first + place.row_lane, tiling.row_lanes, min(tiling.rows, first + tiling.tile_rows),
        [&](int row) { return work.load(row, place.pack, tiling.packs); },
        [&](int row, const typename Work::Loaded& loaded) {
          work.store(static_cast<std::int64_t>(row) * tiling.packs + place.pack, loaded, factors);
        });
  }
}

template <typename Work>
void for_rows(const char* name, const Work& work, const RowShape& shape, Sweep sweep, Stream stream) {
  require_packs(name, shape.channels);
  const Tiling tiling(shape, Work::rows_at_once);
  constexpr int tiles = rows_of_thread / Work::rows_at_once;
  const int chunks = (tiling.tiles + tiles - 1) / tiles;
  launch(name, rows_kernel<Work>, static_cast<unsigned>(chunks * tiling.groups), block_threads, stream, work,
         shape, sweep);
}

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
    const float rounded = to_float(scale16[channel]);
    shift16[channel] = from_float<T>(narrow_factors(rounded, vectors.beta[channel], batch.mean).shift);
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

/// The same from the sums that a graph has written: each thread makes the factors of its channels, and the
/// first block of each group writes the gradients of gamma and beta. A launch in between would take longer.
template <typename T>
struct SummedBackwardApply {
  static constexpr int resident = 3, rows_at_once = rows_in_flight<T, 2>;
  const void* dy;
  const void* x;
  NormVectors vectors;
  const float* sum;
  const float* product_sum;
  float share;  ///< 1 / rows
  float* gamma_grad;
  float* beta_grad;
  void* dx;

  using Factors = Pack<BackwardFactors>;
  struct Loaded {
    Pack<T> dy, x;
  };
  __device__ Factors factors(int pack) const {
    const Floats gamma = cuda::load<float>(vectors.gamma, pack), mean = cuda::load<float>(vectors.mean, pack);
    const Floats inverse_std = cuda::load<float>(vectors.inverse_std, pack);
    const Floats sums = cuda::load<float>(sum, pack), products = cuda::load<float>(product_sum, pack);
    Factors factors;
#pragma unroll
    for (int c = 0; c < pack_size; ++c) {
      factors.at[c] = quick_backward_factors(gamma.at[c], mean.at[c], inverse_std.at[c], products.at[c],
                                             sums.at[c], share);
    }
    return factors;
  }
  __device__ void finish(int pack) const {
    cuda::store<float>(beta_grad, pack, cuda::load<float>(sum, pack));
    cuda::store<float>(gamma_grad, pack, cuda::load<float>(product_sum, pack));
  }
  __device__ Loaded load(int row, int pack, int packs) const {
    const std::int64_t at = static_cast<std::int64_t>(row) * packs + pack;
    return {load_pack<T>(dy, at), load_pack<T>(x, at)};
  }
  __device__ void store(std::int64_t at, const Loaded& loaded, const Factors& factors) const {
    cuda::store<T>(dx, at, apply_backward(to_floats(loaded.dy), to_floats(loaded.x), factors));
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

void norm_backward_apply_sums(Numeric numeric, const void* dy, const void* x, const RowShape& shape,
                              const NormVectors& vectors, const float* sum, const float* product_sum,
                              float* gamma_grad, float* beta_grad, void* dx, Sweep sweep, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    for_rows("norm_backward_apply_sums",
             SummedBackwardApply<T>{dy, x, vectors, sum, product_sum,
                                    static_cast<float>(1.0 / static_cast<double>(shape.rows)), gamma_grad,
                                    beta_grad, dx},
             shape, sweep, stream);
  });
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
