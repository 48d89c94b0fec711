// Max-pool 3x3, stride 2 after the stem and the average over the last images. At 224 px and fp16 an image has
// 64 x 112 x 112 elements before the max-pool, of which forward reads 1.6 MB and writes 0.6.

#include <cmath>
#include <limits>

#include "workloads/resnet50/cuda/kernels/norm.cuh"

namespace virtrain::resnet50::cuda {
namespace {

struct Place {
  int image, row, column, pack;
};
/// Which pack of an NHWC image a thread handles.
__device__ Place place_of(int index, int size, int packs) {
  Place place;
  place.pack = index % packs;
  index /= packs;
  place.column = index % size;
  index /= size;
  place.row = index % size;
  place.image = index / size;
  return place;
}

__device__ int clamped(int coordinate, int size) {
  const int at_least = coordinate < 0 ? 0 : coordinate;
  return at_least < size ? at_least : size - 1;
}

/// The first of two that are equal stays, a NaN is larger than any number. Without branches: a warp would go
/// both ways.
__device__ void take_larger(const Floats& values, int position, bool first, Floats& largest,
                            Positions& where) {
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    const float value = values.at[c];
    const bool takes =
        first || (static_cast<int>(value > largest.at[c]) | static_cast<int>(isnan(value))) != 0;
    largest.at[c] = takes ? value : largest.at[c];
    where.at[c] = takes ? static_cast<std::uint8_t>(position) : where.at[c];
  }
}

template <typename T>
__global__ void norm_max_pool_kernel(const void* x, PoolShape shape, NormVectors vectors, int work, void* y,
                                     Positions* position, Sweep sweep) {
  const int thread = static_cast<int>(global_thread());
  if (thread >= work) { return; }
  const int index = sweep == Sweep::descending ? work - 1 - thread : thread;
  const int packs = shape.channels / pack_size;
  const Place place = place_of(index, shape.out_size(), packs);
  const int top = place.row * PoolShape::stride - PoolShape::padding;
  const int left = place.column * PoolShape::stride - PoolShape::padding;
  // A window that reaches over the edge looks at the edge again, with the edge's own position: that changes
  // nothing, and no thread has to leave its warp.
  constexpr int window = PoolShape::kernel * PoolShape::kernel;
  Pack<T> raw[window];  // loaded together: none waits until another has been compared
  int positions[window];
#pragma unroll
  for (int i = 0; i < window; ++i) {
    const int row = clamped(top + i / PoolShape::kernel, shape.in_size);
    const int column = clamped(left + i % PoolShape::kernel, shape.in_size);
    raw[i] = load_pack<T>(x, pack_index(place.image, row, column, place.pack, shape.in_size, packs));
    positions[i] = (row - top) * PoolShape::kernel + column - left;
  }
  const PackFactors factors = pack_factors(vectors, place.pack);
  Floats largest;
  Positions where;
#pragma unroll
  for (int i = 0; i < window; ++i) {
    take_larger(apply_factors(to_floats(raw[i]), factors), positions[i], i == 0, largest, where);
  }
#pragma unroll
  for (int c = 0; c < pack_size; ++c) {
    if (!(largest.at[c] > 0)) { where.at[c] = no_position; }
    largest.at[c] = largest.at[c] < 0 ? 0 : largest.at[c];  // written so that a NaN passes
  }
  store<T>(y, index, largest);
  position[index] = where;
}

template <typename T>
__global__ void average_pool_kernel(const void* x, int batch, int positions, int packs, void* y) {
  const std::int64_t index = global_thread();
  if (index >= static_cast<std::int64_t>(batch) * packs) { return; }
  const std::int64_t first = index / packs * positions * packs + index % packs;
  Floats sum{};
  for (int i = 0; i < positions; ++i) {
    const Floats values = load<T>(x, first + static_cast<std::int64_t>(i) * packs);
    for (int c = 0; c < pack_size; ++c) { sum.at[c] += values.at[c]; }
  }
  for (int c = 0; c < pack_size; ++c) { sum.at[c] /= static_cast<float>(positions); }
  store<T>(y, index, sum);
}

template <typename T>
__global__ void average_pool_backward_kernel(const void* dy, int batch, int positions, int packs, void* dx) {
  const std::int64_t index = global_thread();
  if (index >= static_cast<std::int64_t>(batch) * positions * packs) { return; }
  const std::int64_t image = index / (static_cast<std::int64_t>(positions) * packs);
  Floats gradient = load<T>(dy, image * packs + index % packs);
  for (int c = 0; c < pack_size; ++c) { gradient.at[c] /= static_cast<float>(positions); }
  store<T>(dx, index, gradient);
}

/// Packs of an image batch of that size. The kernels count them in 32 bits: a step's tensor has less than
/// 2^31 elements.
int packs_of(const char* kernel, const PoolShape& shape, int size) {
  require_packs(kernel, shape.channels);
  const std::int64_t packs =
      static_cast<std::int64_t>(shape.batch) * size * size * (shape.channels / pack_size);
  if (packs <= std::numeric_limits<int>::max() - block_threads) { return static_cast<int>(packs); }
  throw Error(std::string("launch ") + kernel, ErrorCode::usage,
              std::to_string(packs) + " packs (allowed: less than 2^31)");
}

}  // namespace

void norm_max_pool(Numeric numeric, const void* x, const PoolShape& shape, const NormVectors& vectors,
                   void* y, std::uint8_t* position, Sweep sweep, Stream stream) {
  const int work = packs_of("norm_max_pool", shape, shape.out_size());
  packs_of("norm_max_pool", shape, shape.in_size);  // x is larger
  with_element(numeric, [&]<typename T>(T) {
    launch("norm_max_pool", norm_max_pool_kernel<T>, blocks_for(work), block_threads, stream, x, shape,
           vectors, work, y, reinterpret_cast<Positions*>(position), sweep);
  });
}

void average_pool(Numeric numeric, const void* x, int batch, int positions, int channels, void* y,
                  Stream stream) {
  require_packs("average_pool", channels);
  const int packs = channels / pack_size;
  with_element(numeric, [&]<typename T>(T) {
    launch("average_pool", average_pool_kernel<T>, blocks_for(static_cast<std::int64_t>(batch) * packs),
           block_threads, stream, x, batch, positions, packs, y);
  });
}

void average_pool_backward(Numeric numeric, const void* dy, int batch, int positions, int channels, void* dx,
                           Stream stream) {
  require_packs("average_pool_backward", channels);
  const int packs = channels / pack_size;
  const std::int64_t work = static_cast<std::int64_t>(batch) * positions * packs;
  with_element(numeric, [&]<typename T>(T) {
    launch("average_pool_backward", average_pool_backward_kernel<T>, blocks_for(work), block_threads, stream,
           dy, batch, positions, packs, dx);
  });
}

}  // namespace virtrain::resnet50::cuda
