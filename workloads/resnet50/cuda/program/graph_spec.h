#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/enum_text.h"
#include "workloads/resnet50/cuda/kernels/numeric.h"
#include "workloads/resnet50/model.h"

/// Which cuDNN graphs a training step needs, as plain data: no cuDNN here.
namespace virtrain::resnet50::cuda {

using virtrain::to_string;

/// One graph, one kernel (or a few that cuDNN hides behind it). Its tensors are those of TensorId.
enum class GraphKind {
  convolution,                  ///< y = conv(x, w)
  convolution_statistics,       ///< ... with the sums of y and of y squared per channel
  norm_convolution_statistics,  ///< the same of max(scale x + shift, 0) instead of x
  backward_data,                ///< dx = dgrad(dy, w)
  backward_data_add,            ///< dx = dgrad(dy, w) + other: where a block's two paths meet
  backward_data_add_mask,       ///< the same where the mask of the block before is set
  backward_data_tail,           ///< the same where relu(norm(x) + shortcut) > 0, and the norm's sums over it
  backward_data_tail_norm,      ///< the same where the shortcut is normalized as well: two norms' sums
  backward_data_norm,           ///< dz = dgrad(dy, w) where relu(norm(x)) > 0, and the norm's sums over it
  backward_weights,             ///< dw = wgrad(dy, x), in the type of the activations
  norm_backward_weights,        ///< the same with max(scale x + shift, 0) instead of x
};
VIRTRAIN_DESCRIBE_ENUM(GraphKind, convolution, convolution_statistics, norm_convolution_statistics,
                       backward_data, backward_data_add, backward_data_add_mask, backward_data_tail,
                       backward_data_tail_norm, backward_data_norm, backward_weights, norm_backward_weights)

/// The tensors of a graph. Activations are NHWC, weights KRSC, vectors fp32 with one element per channel
/// unless said otherwise.
enum class TensorId : std::int64_t {
  x = 1,        ///< input {batch, in_channels, in_size, in_size}; of a norm_ or _norm graph before its norm
  w,            ///< weights {out_channels, in_channels, kernel, kernel}
  y,            ///< output {batch, out_channels, out_size, out_size}
  dx,           ///< gradient of x (of backward_data_norm, _tail: of the norm's output, masked by the ReLU)
  dw,           ///< gradient of w, type of the activations
  dy,           ///< gradient of y
  other,        ///< backward_data_add, _mask, _tail: what is added; like x
  sum,          ///< of y over batch and space, {out_channels}
  square_sum,   ///< of y squared, {out_channels}
  scale,        ///< norm_ graphs: gamma / deviation, fp16 {in_channels}; backward_data_norm: gamma, fp32
  shift,        ///< norm_ graphs: beta - mean gamma / deviation, fp16; backward_data_norm: beta, fp32
  mean,         ///< backward_data_norm: of x, {in_channels}
  inverse_std,  ///< backward_data_norm: 1 / sqrt(variance of x + epsilon)
  scale_grad,   ///< backward_data_norm: of gamma, {in_channels}
  shift_grad,   ///< backward_data_norm: of beta
  factor_dy,    ///< backward_data_norm: d(norm's input) = factor_dy dx + factor_x x + constant
  factor_x,
  constant,
  mask,      ///< backward_data_add_mask: one bit for each element of dx
  shortcut,  ///< backward_data_tail: what was added to the norm; _norm: before a norm of its own, as follows
  shortcut_mean,
  shortcut_inverse_std,
  shortcut_scale,
  shortcut_shift,
  shortcut_scale_grad,
  shortcut_shift_grad,
  shortcut_factor_dy,
  shortcut_factor_x,
  shortcut_constant,
};

/// The row that it belongs to where a step is taken apart: "convolution forward".
const char* pass_of(GraphKind kind);

/// Whether it writes sums for a norm. cuDNN 9's engines add them up in no fixed order, which not all of them
/// note: on an H200 no two steps at `statistics` gave the same bits.
bool has_sums(GraphKind kind);

/// Whether a tensor has sums over batch and space that a graph writes.
bool is_sum(TensorId id);

/// Whether a graph writes the tensor; it reads the others.
bool is_output(TensorId id);

/// A graph with its sizes. The last layer is a 1x1 convolution over 1x1 images; its bias is our kernels'
/// work.
struct GraphSpec {
  GraphKind kind = GraphKind::convolution;
  Numeric numeric = Numeric::fp16;
  int batch = 1;
  int in_channels = 1;
  int out_channels = 1;
  int in_size = 1;
  int kernel = 1;
  int stride = 1;
  int padding = 0;

  int out_size() const { return (in_size + 2 * padding - kernel) / stride + 1; }
  // clang-tidy 14 takes the 0 that the result is compared with for a pointer.
  auto operator<=>(const GraphSpec&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// "backward_data fp16 n128 64->256 56x56 k1 s1": the same graph has the same name everywhere (plan cache,
/// traces).
std::string to_string(const GraphSpec& spec);

/// How much of what stands between the convolutions lives inside them. Each level holds those before it.
enum class Fusion {
  none,        ///< convolutions alone; normalization, ReLU and additions are our kernels
  addition,    ///< backward adds a block's two gradients, and masks the sum, while it writes one
  statistics,  ///< forward also writes the sums that the normalization needs
  full,        ///< also scale, shift and ReLU while reading, and the normalizations' backward sums
};
VIRTRAIN_DESCRIBE_ENUM(Fusion, none, addition, statistics, full)

/// Fusions that a level decides on anew for each shape of convolution.
enum class FusionKind {
  addition,       ///< the gradient of a block's input: graph and addition in one
  mask,           ///< ... and the ReLU's mask of the block before
  statistics,     ///< forward with sums
  norm_gradient,  ///< inside a block: the ReLU's gradient and the norm's backward sums
  norm,           ///< reads raw outputs forward and for the weights' gradient; needs norm_gradient
  tail,           ///< addition, mask and the norm's backward sums in one
};
VIRTRAIN_DESCRIBE_ENUM(FusionKind, addition, mask, statistics, norm_gradient, norm, tail)

/// The lowest level that fuses it.
Fusion level_of(FusionKind kind);
/// "statistics 64->256 56x56 k1 s1": one choice, whose alternatives are timed against each other.
std::string fusion_site(FusionKind kind, const Convolution& convolution);

/// The kind of fusion that needs this graph; none needs a plain one.
std::optional<FusionKind> kind_of(GraphKind kind);
/// The choice without which a step does not need this graph.
std::optional<std::string> fusion_site(const GraphSpec& spec);

/// The highest level all of whose graphs cuDNN 9 has precompiled, or compiles without sums, for this type on
/// this compute capability. Precompiled engines with sums exist for fp16 only, on Ampere and Hopper all of
/// them, on data-centre Blackwell those that only write sums.
Fusion highest_fusion(Numeric numeric, int compute_capability);
/// The highest level for which cuDNN has any engines: it also compiles some with sums. Which of them are
/// worth it, timing each shape decides.
Fusion widest_fusion(Numeric numeric, int compute_capability);
/// Whether cuDNN has engines for this kind of fusion at all. Those that normalize what they read take factors
/// of the activations' type, for which bf16 has too few digits, and for weights' gradients there are none but
/// for fp16. Nothing is known to speak against fp32, which tests interpret.
bool is_offered(FusionKind kind, Numeric numeric);

/// The graph of one direction of this convolution; the images' channels padded.
GraphSpec convolution_graph(GraphKind kind, Numeric numeric, int batch, const Convolution& convolution);
/// The last layer as a convolution.
GraphSpec linear_graph(GraphKind kind, Numeric numeric, int batch, const Model& model);

}  // namespace virtrain::resnet50::cuda
