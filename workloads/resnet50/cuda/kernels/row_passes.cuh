#pragma once

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"

/// Passes over rows of channels: one that adds up, of which the last blocks finish the sums, and one that
/// handles each element.
namespace virtrain::resnet50::cuda {

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

}  // namespace virtrain::resnet50::cuda
