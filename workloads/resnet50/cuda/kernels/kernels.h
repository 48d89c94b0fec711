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

/// In which order a pass goes through its tensors. What the pass before touched last is in the GPU's cache,
/// so the next one begins there.
enum class Sweep { ascending, descending };

/// Blocks that the sums over one tensor are split into, at most; channels of a group of blocks.
inline constexpr int most_partial_blocks = 2048;
inline constexpr int channels_of_group = 256;
inline constexpr int most_channel_groups = 32;
/// So many blocks add up theirs before all are added up.
inline constexpr int blocks_of_batch = 32;
inline constexpr int tickets_of_group = 1 + most_partial_blocks / blocks_of_batch;

/// Room in which the blocks of a pass put their sums, for one pass after the other.
struct PartialSums {
  float* first = nullptr;   ///< most_partial_blocks x channels_of_group
  float* second = nullptr;  ///< as many
  int* tickets = nullptr;   ///< most_channel_groups x tickets_of_group, zeros before and after each pass
};

/// Results of a normalization's backward sums.
struct NormGradients {
  float* gamma = nullptr;
  float* beta = nullptr;
  BackwardFactors* factors = nullptr;  ///< of the gradient of x
};

/// Mean, deviation and running statistics, where cuDNN does not write the sums. The sums are those of the
/// distance to x's first row, so that the squares do not cancel. `scale16` and `shift16` (may be null) get
/// the factors for cuDNN's norm_ graphs, in x's type. Reads e.
void norm_sums(Numeric numeric, const void* x, const RowShape& shape, const PartialSums& partial,
               const NormVectors& vectors, void* scale16, void* shift16, Sweep sweep, Stream stream);

/// The same from the sums of x and of its squares that a graph has written. Vectors only.
void norm_finalize(Numeric numeric, const float* sum, const float* square_sum, const RowShape& shape,
                   const NormVectors& vectors, void* scale16, void* shift16, Stream stream);

/// The term that norm_apply adds before the ReLU: nothing, an activation, or an activation that is normalized
/// as well.
struct Shortcut {
  const void* values = nullptr;
  const NormVectors* norm = nullptr;
};
/// y = relu(norm(x) [+ shortcut]). `mask` (may be null) gets one bit per element, the first in the lowest,
/// set where y > 0. Reads e (2e with a shortcut), writes e + 1/8.
void norm_apply(Numeric numeric, const void* x, const RowShape& shape, const NormVectors& vectors,
                const Shortcut& shortcut, void* y, std::uint8_t* mask, Sweep sweep, Stream stream);

/// Gradients of gamma and beta and the factors of the gradient of x, from dy where the mask is set (null:
/// everywhere). Reads 2e + 1/8.
void norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                        const RowShape& shape, const NormVectors& vectors, const PartialSums& partial,
                        const NormGradients& out, Sweep sweep, Stream stream);

/// dx = factors.dy (dy where the mask is set) + factors.x x + factors.constant. `masked` (may be null) gets
/// the masked dy: the gradient of a block's identity shortcut. Reads 2e + 1/8, writes e (2e). dx may be dy.
void norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                         const RowShape& shape, const BackwardFactors* factors, void* dx, void* masked,
                         Sweep sweep, Stream stream);

/// Both from a graph's sums of dy and of dy times normalized x: the gradients of gamma and beta, and dx.
/// Reads 2e, writes e. dx may be dy.
void norm_backward_apply_sums(Numeric numeric, const void* dy, const void* x, const RowShape& shape,
                              const NormVectors& vectors, const float* sum, const float* product_sum,
                              float* gamma_grad, float* beta_grad, void* dx, Sweep sweep, Stream stream);

/// Value of `position` where no input of a window is above zero.
inline constexpr std::uint8_t no_position = 0xff;

/// Maximum of relu(norm(x)) and its row-major position in the window (the first one wins, a NaN always). Per
/// input element: reads e, writes (e + 1) / 4.
void norm_max_pool(Numeric numeric, const void* x, const PoolShape& shape, const NormVectors& vectors,
                   void* y, std::uint8_t* position, Sweep sweep, Stream stream);
/// norm_backward_sums and norm_backward_apply with the gradient of the max-pool's output: each input looks at
/// the at most four windows that hold it. Read e + (e + 1) / 4; the second writes e.
void pooled_norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* position, const void* x,
                               const PoolShape& shape, const NormVectors& vectors, const PartialSums& partial,
                               const NormGradients& out, Sweep sweep, Stream stream);
void pooled_norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* position, const void* x,
                                const PoolShape& shape, const BackwardFactors* factors, void* dx, Sweep sweep,
                                Stream stream);

/// Mean over the image: {batch, positions, channels} to {batch, channels}. Reads e.
void average_pool(Numeric numeric, const void* x, int batch, int positions, int channels, void* y,
                  Stream stream);
/// Writes e.
void average_pool_backward(Numeric numeric, const void* dy, int batch, int positions, int channels, void* dx,
                           Stream stream);

/// Cross-entropy of softmax(logits + bias) per row into row_loss, and the gradient of the mean over the rows
/// of all `ranks`, times the loss scale. Any number of classes. Reads e three times (twice from cache),
/// writes e.
void softmax_cross_entropy(Numeric numeric, const void* logits, const float* bias, const std::int32_t* labels,
                           int rows, int classes, int ranks, const LossScale* loss_scale, float* row_loss,
                           void* gradient, Stream stream);
/// Mean of the rows' losses into *loss, by one block. Reads 4 bytes a row: launch time, not bytes.
void mean_loss(const float* row_loss, int rows, float* loss, Stream stream);
/// Sums over rows, in double: the gradient of the last layer's bias. Reads e.
void column_sums(Numeric numeric, const void* values, int rows, int columns, float* sums, Stream stream);

/// The update of `count` parameters, all tensors of one type at once since they lie in one block of memory.
/// `gradient` is of type `numeric` (or fp32 with gradient_numeric), `copy` (null for fp32) gets the
/// parameters in the activations' type; all begin at 16 bytes. Nothing happens in a step that overflowed.
/// 16-bit: reads 10, writes 10 bytes per parameter: 511 MB for ResNet-50.
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

/// Fills memory with values of either sign between 1 and 2, read as fp16; between 2^-7 and 2, read as bf16 or
/// fp32. A GPU that computes with such values draws as much power as it will in training. Writes 4 bytes a
/// word; a rest of less than a word stays as it is.
void fill_noise(void* memory, std::int64_t bytes, Stream stream);

/// The kernels of a step, so that whoever runs it can bring others: a GPU these, the tests plain ones.
struct Kernels {
  decltype(&cuda::norm_sums) norm_sums = &cuda::norm_sums;
  decltype(&cuda::norm_finalize) norm_finalize = &cuda::norm_finalize;
  decltype(&cuda::norm_apply) norm_apply = &cuda::norm_apply;
  decltype(&cuda::norm_backward_sums) norm_backward_sums = &cuda::norm_backward_sums;
  decltype(&cuda::norm_backward_apply) norm_backward_apply = &cuda::norm_backward_apply;
  decltype(&cuda::norm_backward_apply_sums) norm_backward_apply_sums = &cuda::norm_backward_apply_sums;
  decltype(&cuda::norm_max_pool) norm_max_pool = &cuda::norm_max_pool;
  decltype(&cuda::pooled_norm_backward_sums) pooled_norm_backward_sums = &cuda::pooled_norm_backward_sums;
  decltype(&cuda::pooled_norm_backward_apply) pooled_norm_backward_apply = &cuda::pooled_norm_backward_apply;
  decltype(&cuda::average_pool) average_pool = &cuda::average_pool;
  decltype(&cuda::average_pool_backward) average_pool_backward = &cuda::average_pool_backward;
  decltype(&cuda::softmax_cross_entropy) softmax_cross_entropy = &cuda::softmax_cross_entropy;
  decltype(&cuda::mean_loss) mean_loss = &cuda::mean_loss;
  decltype(&cuda::column_sums) column_sums = &cuda::column_sums;
  decltype(&cuda::sgd) sgd = &cuda::sgd;
  decltype(&cuda::find_overflow) find_overflow = &cuda::find_overflow;
  decltype(&cuda::advance_loss_scale) advance_loss_scale = &cuda::advance_loss_scale;
  decltype(&cuda::add) add = &cuda::add;
  decltype(&cuda::accumulate) accumulate = &cuda::accumulate;
  decltype(&cuda::stamp) stamp = &cuda::stamp;
  decltype(&cuda::widen) widen = &cuda::widen;
};

}  // namespace virtrain::resnet50::cuda
