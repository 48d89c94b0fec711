// Softmax cross-entropy forward and backward in one kernel, and the sums that go with it. At batch 256 and
// 1000 classes all of it touches 1 MB: launch time, not bytes.

#include "workloads/resnet50/cuda/kernels/column_sums.cuh"
#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"

namespace virtrain::resnet50::cuda {
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
