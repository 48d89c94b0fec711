#pragma once

#include "workloads/resnet50/cuda/kernels/device.cuh"

/// Sums of a few hundred rows, column by column: the gradient of the last layer's bias. Few bytes, so what
/// counts is how long a thread waits for its rows one after another: a block takes eight columns (32 bytes of
/// fp32 side by side) and 32 threads share each column's rows.
namespace virtrain::resnet50::cuda {

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

}  // namespace virtrain::resnet50::cuda
