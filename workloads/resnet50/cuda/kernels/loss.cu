// Softmax cross-entropy forward and backward in one kernel, and the sums that go with it. At batch 256 and
// 1000 classes all of it touches 1 MB: launch time, not bytes.

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"

namespace virtrain::resnet50::cuda {

// Sums of a few hundred rows, column by column: the gradient of the last layer's bias. Few bytes, so what
// counts is how long a thread waits for its rows one after another: a block takes eight columns (32 bytes of
// fp32 side by side) and 32 threads share each column's rows.

inline constexpr int column_lanes = 8;
inline constexpr int column_row_lanes = block_threads / column_lanes;

/// `count` sums of one column.
template <int count>
struct ColumnSums {
  double at[count];
};

/// Those of a block's threads.
template <int count>
struct ColumnLanes {
  ColumnSums<count> at[column_row_lanes][column_lanes];
};

/// Column of this thread's sums, in a grid of column_blocks(columns) blocks.
__device__ inline int column_of_thread() {
  return static_cast<int>(blockIdx.x) * column_lanes + static_cast<int>(threadIdx.x) % column_lanes;
}
inline unsigned column_blocks(int columns) {
  return static_cast<unsigned>((columns + column_lanes - 1) / column_lanes);
}

/// Adds up what `row_values(row)` gives for the rows of this thread's column; to be called by all threads of
/// a block. True in the one thread of each column that has the result. The order is fixed: every 32nd row in
/// a thread, then the threads one after another.
template <int count, typename RowValues>
__device__ bool sum_column(int rows, int columns, const RowValues& row_values, ColumnSums<count>& total) {
  ColumnLanes<count>& lanes = block_shared<ColumnLanes<count>>();
  const int lane = static_cast<int>(threadIdx.x) % column_lanes;
  const int row_lane = static_cast<int>(threadIdx.x) / column_lanes;
  const bool has_column = column_of_thread() < columns;
  ColumnSums<count> sum{};
#pragma unroll 4  // so many loads are under way at once
  for (int row = row_lane; row < (has_column ? rows : 0); row += column_row_lanes) {
    const ColumnSums<count> values = row_values(row);
    for (int i = 0; i < count; ++i) { sum.at[i] += values.at[i]; }
  }
  lanes.at[row_lane][lane] = sum;
  __syncthreads();
  if (row_lane != 0 || !has_column) { return false; }
  total = {};
  for (int r = 0; r < column_row_lanes; ++r) {
    for (int i = 0; i < count; ++i) { total.at[i] += lanes.at[r][lane].at[i]; }
  }
  return true;
}

namespace {

struct Larger {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct BlockValues {
  float at[block_threads];
};
/// The same result in all threads of the block, combined in a fixed order.
template <typename Combine>
__device__ float over_block(float value, const Combine& combine) {
  float* const values = block_shared<BlockValues>().at;
  values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const float result = values[0];
  __syncthreads();
  return result;
}

/// One block per row.
template <typename T>
__global__ void softmax_kernel(const T* logits, const float* bias, const std::int32_t* labels, int classes,
                               int ranks, const LossScale* loss_scale, float* row_loss, T* gradient) {
  const int row = static_cast<int>(blockIdx.x);
  const T* const x = logits + static_cast<std::int64_t>(row) * classes;
  T* const out = gradient + static_cast<std::int64_t>(row) * classes;
  const int start = static_cast<int>(threadIdx.x);
  float largest = -INFINITY;
  for (int i = start; i < classes; i += block_threads) {
    largest = Larger{}(to_float(x[i]) + bias[i], largest);
  }
  largest = over_block(largest, Larger{});
  float sum = 0;
  for (int i = start; i < classes; i += block_threads) { sum += expf(to_float(x[i]) + bias[i] - largest); }
  sum = over_block(sum, Plus{});
  const int label = labels[row];
  if (start == 0) { row_loss[row] = logf(sum) - (to_float(x[label]) + bias[label] - largest); }
  __syncthreads();  // the gradient may lie where the logits are
  const float factor = loss_scale->scale / (static_cast<float>(gridDim.x) * static_cast<float>(ranks));
  for (int i = start; i < classes; i += block_threads) {
    const float share = expf(to_float(x[i]) + bias[i] - largest) / sum;
    out[i] = from_float<T>((share - (i == label ? 1.0F : 0.0F)) * factor);
  }
}

__global__ void mean_kernel(const float* values, int count, float* mean) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += block_threads) { sum += values[i]; }
  sum = over_block(sum, Plus{});
  if (threadIdx.x == 0) { *mean = sum / static_cast<float>(count); }
}

template <typename T>
__global__ void column_sums_kernel(const T* values, int rows, int columns, float* sums) {
  const int column = column_of_thread();
  const auto values_of = [&](int row) {
    return ColumnSums<1>{{to_float(values[static_cast<std::int64_t>(row) * columns + column])}};
  };
  ColumnSums<1> sum;
  if (sum_column(rows, columns, values_of, sum)) { sums[column] = static_cast<float>(sum.at[0]); }
}

}  // namespace

void softmax_cross_entropy(Numeric numeric, const void* logits, const float* bias, const std::int32_t* labels,
                           int rows, int classes, int ranks, const LossScale* loss_scale, float* row_loss,
                           void* gradient, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("softmax_cross_entropy", softmax_kernel<T>, static_cast<unsigned>(rows), block_threads, stream,
           static_cast<const T*>(logits), bias, labels, classes, ranks, loss_scale, row_loss,
           static_cast<T*>(gradient));
  });
}

void mean_loss(const float* row_loss, int rows, float* loss, Stream stream) {
  launch("mean_loss", mean_kernel, 1, block_threads, stream, row_loss, rows, loss);
}

void column_sums(Numeric numeric, const void* values, int rows, int columns, float* sums, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("column_sums", column_sums_kernel<T>, column_blocks(columns), block_threads, stream,
           static_cast<const T*>(values), rows, columns, sums);
  });
}

}  // namespace virtrain::resnet50::cuda
