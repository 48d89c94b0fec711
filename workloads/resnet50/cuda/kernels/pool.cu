// Max-pool 3x3, stride 2 after the stem and the average over the last images. At 224 px and fp16 an image has
// 64 x 112 x 112 elements before the max-pool: forward reads 1.6 MB and writes 0.6, backward the reverse.

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"

namespace virtrain::resnet50::cuda {
namespace {

/// Positions of a pack's maxima in their windows: one load or store of 8 bytes.
struct alignas(pack_size) Positions {
  std::uint8_t at[pack_size];
};

struct Place {
  int image, row, column, pack;
};
/// Which pack of an NHWC image a thread handles.
__device__ Place place_of(std::int64_t index, int size, int packs) {
  Place place;
  place.pack = static_cast<int>(index % packs);
  index /= packs;
  place.column = static_cast<int>(index % size);
  index /= size;
  place.row = static_cast<int>(index % size);
  place.image = static_cast<int>(index / size);
  return place;
}

template <typename T>
__global__ void max_pool_kernel(const void* x, PoolShape shape, void* y, Positions* position) {
  const int packs = shape.channels / pack_size;
  const int out = shape.out_size();
  const std::int64_t index = global_thread();
  if (index >= static_cast<std::int64_t>(shape.batch) * out * out * packs) return;
  const Place place = place_of(index, out, packs);
  Floats largest;
  Positions where;
  bool first = true;
  for (int i = 0; i < shape.kernel * shape.kernel; ++i) {
    const int row = place.row * shape.stride - shape.padding + i / shape.kernel;
    const int column = place.column * shape.stride - shape.padding + i % shape.kernel;
    if (row < 0 || row >= shape.in_size || column < 0 || column >= shape.in_size) continue;
    const Floats values = load<T>(x, pack_index(place.image, row, column, place.pack, shape.in_size, packs));
    for (int c = 0; c < pack_size; ++c) {
      const bool takes = first || values.at[c] > largest.at[c] || isnan(values.at[c]);
      largest.at[c] = takes ? values.at[c] : largest.at[c];
      where.at[c] = takes ? static_cast<std::uint8_t>(i) : where.at[c];
    }
    first = false;
  }
  store<T>(y, index, largest);
  position[index] = where;
}

template <typename T>
__global__ void max_pool_backward_kernel(const void* dy, const Positions* position, PoolShape shape,
                                         void* dx) {
  const int packs = shape.channels / pack_size;
  const int out = shape.out_size();
  const std::int64_t index = global_thread();
  if (index >= static_cast<std::int64_t>(shape.batch) * shape.in_size * shape.in_size * packs) return;
  const Place place = place_of(index, shape.in_size, packs);
  Floats sum{};
  const OutRange rows = windows_of(place.row, shape);
  const OutRange columns = windows_of(place.column, shape);
  for (int row = rows.first; row < rows.end; ++row) {
    for (int column = columns.first; column < columns.end; ++column) {
      const std::int64_t from = pack_index(place.image, row, column, place.pack, out, packs);
      const int wanted = window_position(place.row, place.column, row, column, shape);
      const Floats gradient = load<T>(dy, from);
      const Positions largest = position[from];
      for (int c = 0; c < pack_size; ++c) {
        if (largest.at[c] == wanted) sum.at[c] += gradient.at[c];
      }
    }
  }
  store<T>(dx, index, sum);
}

template <typename T>
__global__ void average_pool_kernel(const void* x, int batch, int positions, int packs, void* y) {
  const std::int64_t index = global_thread();
  if (index >= static_cast<std::int64_t>(batch) * packs) return;
  const std::int64_t first = index / packs * positions * packs + index % packs;
  Floats sum{};
  for (int i = 0; i < positions; ++i) {
    const Floats values = load<T>(x, first + static_cast<std::int64_t>(i) * packs);
    for (int c = 0; c < pack_size; ++c) sum.at[c] += values.at[c];
  }
  for (int c = 0; c < pack_size; ++c) sum.at[c] /= static_cast<float>(positions);
  store<T>(y, index, sum);
}

template <typename T>
__global__ void average_pool_backward_kernel(const void* dy, int batch, int positions, int packs, void* dx) {
  const std::int64_t index = global_thread();
  if (index >= static_cast<std::int64_t>(batch) * positions * packs) return;
  const std::int64_t image = index / (static_cast<std::int64_t>(positions) * packs);
  Floats gradient = load<T>(dy, image * packs + index % packs);
  for (int c = 0; c < pack_size; ++c) gradient.at[c] /= static_cast<float>(positions);
  store<T>(dx, index, gradient);
}

}  // namespace

void max_pool(Numeric numeric, const void* x, const PoolShape& shape, void* y, std::uint8_t* position,
              Stream stream) {
  require_packs("max_pool", shape.channels);
  const std::int64_t out = shape.out_size();
  const std::int64_t work = shape.batch * out * out * (shape.channels / pack_size);
  with_element(numeric, [&]<typename T>(T) {
    launch("max_pool", max_pool_kernel<T>, blocks_for(work), block_threads, stream, x, shape, y,
           reinterpret_cast<Positions*>(position));
  });
}

void max_pool_backward(Numeric numeric, const void* dy, const std::uint8_t* position, const PoolShape& shape,
                       void* dx, Stream stream) {
  require_packs("max_pool_backward", shape.channels);
  const std::int64_t in = shape.in_size;
  const std::int64_t work = shape.batch * in * in * (shape.channels / pack_size);
  with_element(numeric, [&]<typename T>(T) {
    launch("max_pool_backward", max_pool_backward_kernel<T>, blocks_for(work), block_threads, stream, dy,
           reinterpret_cast<const Positions*>(position), shape, dx);
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
