#pragma once

#include <cstddef>
#include <cstdint>

#include "workloads/resnet50/cuda/kernels/arithmetic.h"
#include "workloads/resnet50/cuda/kernels/numeric.h"

struct CUstream_st;

/// Our own kernels: what no library has, or has in more passes over memory. All pointers are to device
/// memory, activations NHWC, they and the vectors of a normalization aligned to 16 bytes, channels a multiple
/// of pack_size (Error(usage) otherwise). All sums are fp32 or wider and in a fixed order: equal inputs give
/// equal bits. Nothing here waits for the GPU, allocates, or fails once the first launch succeeded, so all of
/// it can be captured in a CUDA graph.
///
/// Bytes are per element of the largest tensor, e = bytes of one activation; the floor is bytes over copy
/// rate.
namespace virtrain::resnet50::cuda {

using Stream = CUstream_st*;

/// rows x channels: an activation as the normalization sees it.
struct RowShape {
  std::int64_t rows = 1;  ///< batch * height * width
  int channels = pack_size;
};

/// fp32 vectors of one normalization, all of `channels` elements.
struct NormVectors {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* mean = nullptr;
  float* inverse_std = nullptr;
  float* running_mean = nullptr;
  float* running_variance = nullptr;
};

/// Room for the partial sums of one normalization, reused by all of them: blocks x channels floats twice.
inline constexpr int most_partial_blocks = 512;
/// Blocks that the sums over this shape are split into.
int partial_blocks(const RowShape& shape);

struct PartialSums {
  float* first = nullptr;   ///< forward: of x - origin; backward: of the masked gradient
  float* second = nullptr;  ///< forward: of its square; backward: of gradient times normalized x
  int blocks = 1;           ///< rows of both; cuDNN's statistics are one row
};

/// Forward sums where cuDNN does not write them. Origin is x's first row, so that the squares do not cancel.
/// Reads e.
void norm_sums(Numeric numeric, const void* x, const RowShape& shape, const PartialSums& partial,
               Stream stream);

/// Mean, deviation and running statistics from the sums. `origin`: x where norm_sums made the sums, null for
/// cuDNN's. `scale16` and `shift16` (may be null) get fp16 factors for cuDNN's norm_ graphs. Reads 8 bytes
/// per channel and block of partial sums, which it adds in double by 32 threads a channel; else vectors only.
void norm_finalize(Numeric numeric, const void* origin, const PartialSums& partial, const RowShape& shape,
                   const NormVectors& vectors, void* scale16, void* shift16, Stream stream);

/// What norm_apply adds before the ReLU: nothing, an activation, or an activation that is normalized as well.
struct Shortcut {
  const void* values = nullptr;
  const NormVectors* norm = nullptr;
};
/// y = [relu](norm(x) [+ shortcut]). `mask` (may be null: no ReLU) gets one bit per element, the first in the
/// lowest, set where y > 0. Reads e (2e with a shortcut), writes e + 1/8.
void norm_apply(Numeric numeric, const void* x, const RowShape& shape, const NormVectors& vectors,
                const Shortcut& shortcut, void* y, std::uint8_t* mask, Stream stream);

/// Backward sums: of dy where the mask is set (null: everywhere), and of it times normalized x. Reads 2e +
/// 1/8.
void norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                        const RowShape& shape, const NormVectors& vectors, const PartialSums& partial,
                        Stream stream);

/// Gradients of gamma and beta and the factors of the gradient of x, from the sums. Bytes as norm_finalize.
void norm_backward_finalize(const PartialSums& partial, const RowShape& shape, const NormVectors& vectors,
                            float* gamma_grad, float* beta_grad, BackwardFactors* factors, Stream stream);

/// dx = factors.dy (dy where the mask is set) + factors.x x + factors.constant. `masked` (may be null) gets
/// the masked dy: the gradient of a block's identity shortcut. Reads 2e + 1/8, writes e (2e). dx may be dy.
void norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                         const RowShape& shape, const BackwardFactors* factors, void* dx, void* masked,
                         Stream stream);

/// Maximum and its row-major position in the window (the first one wins, a NaN always). Per input element:
/// reads e, writes (e + 1) / 4.
void max_pool(Numeric numeric, const void* x, const PoolShape& shape, void* y, std::uint8_t* position,
              Stream stream);
/// Gathers: each input looks at the at most four windows that hold it. Reads (e + 1) / 4, writes e.
void max_pool_backward(Numeric numeric, const void* dy, const std::uint8_t* position, const PoolShape& shape,
                       void* dx, Stream stream);

/// Mean over the image: {batch, positions, channels} to {batch, channels}. Reads e.
void average_pool(Numeric numeric, const void* x, int batch, int positions, int channels, void* y,
                  Stream stream);
/// Writes e.
void average_pool_backward(Numeric numeric, const void* dy, int batch, int positions, int channels, void* dx,
                           Stream stream);

/// Cross-entropy of softmax(logits + bias) per row into row_loss, and the gradient of its mean times the loss
/// scale. Any number of classes. Reads e three times (twice from cache), writes e.
void softmax_cross_entropy(Numeric numeric, const void* logits, const float* bias, const std::int32_t* labels,
                           int rows, int classes, const LossScale* loss_scale, float* row_loss,
                           void* gradient, Stream stream);
/// Mean of the rows' losses into *loss, by one block. Reads 4 bytes a row: launch time, not bytes.
void mean_loss(const float* row_loss, int rows, float* loss, Stream stream);
/// Sums over rows, in double: the gradient of the last layer's bias. Reads e.
void column_sums(Numeric numeric, const void* values, int rows, int columns, float* sums, Stream stream);

/// The update of `count` parameters, all tensors of one type at once since they lie in one block of memory.
/// `gradient` is of type `numeric` (or fp32 with gradient_numeric), `copy` (null for fp32) gets the
/// parameters in the activations' type. Nothing happens in a step that overflowed. 16-bit: reads 10, writes
/// 10 bytes per parameter: 511 MB for ResNet-50.
void sgd(Numeric gradient_numeric, const void* gradient, std::int64_t count, float* parameters,
         float* velocity, Numeric copy_numeric, void* copy, const SgdRule* rule, const LossScale* loss_scale,
         Stream stream);

/// Sets loss_scale->overflow if one of the values, which begin at 16 bytes, is infinite or not a number.
/// Reads e.
void find_overflow(Numeric numeric, const void* values, std::int64_t count, LossScale* loss_scale,
                   Stream stream);
/// update_loss_scale on the GPU.
void advance_loss_scale(LossScale* loss_scale, Stream stream);

/// sum = a + b, which may lie in the same place: where a block's two gradients meet and no graph adds them.
/// Reads 2e, writes e.
void add(Numeric numeric, const void* a, const void* b, std::int64_t count, void* sum, Stream stream);
/// sum += values, for --accumulate_steps. Reads 4 + e, writes 4.
void accumulate(Numeric numeric, const void* values, std::int64_t count, float* sum, Stream stream);
/// The GPU's clock (nanoseconds since an epoch of its own, in steps of up to a microsecond) into *time.
void stamp(std::uint64_t* time, Stream stream);
/// To and from fp32: the parameters' copies before the first step; the first micro-batch's gradients, to
/// which the others are added. Moves 4 + e.
void narrow(const float* values, std::int64_t count, Numeric numeric, void* out, Stream stream);
void widen(Numeric numeric, const void* values, std::int64_t count, float* out, Stream stream);
/// fp32 NCHW with three channels to NHWC with padded_image_channels, the last one zero. Once for each batch,
/// before the first step. Per element written: reads 3, writes e.
void pad_images(const float* images, int batch, int size, Numeric numeric, void* out, Stream stream);

}  // namespace virtrain::resnet50::cuda
