#include "workloads/resnet50/cuda/program/graph_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace virtrain::resnet50::cuda {

const char* pass_of(GraphKind kind) {
  switch (kind) {
    case GraphKind::convolution:
    case GraphKind::convolution_statistics:
    case GraphKind::norm_convolution_statistics:
      return "convolution forward";
    case GraphKind::backward_weights:
    case GraphKind::norm_backward_weights:
      return "convolution backward weights";
    default:
      return "convolution backward data";
  }
}

Fusion level_of(FusionKind kind) {
  if (kind == FusionKind::addition || kind == FusionKind::mask) { return Fusion::addition; }
  return kind == FusionKind::statistics ? Fusion::statistics : Fusion::full;
}

namespace {

/// "64->256 56x56 k1 s1", of a convolution or of its graph.
template <typename Shape>
std::string shape_words(const Shape& of) {
  return fmt::format("{}->{} {}x{} k{} s{}", of.in_channels, of.out_channels, of.in_size, of.in_size,
                     of.kernel, of.stride);
}

}  // namespace

std::string fusion_site(FusionKind kind, const Convolution& c) {
  return fmt::format("{} {}", to_string(kind), shape_words(c));
}

std::optional<FusionKind> kind_of(GraphKind kind) {
  switch (kind) {
    case GraphKind::convolution:
    case GraphKind::backward_data:
    case GraphKind::backward_weights:
      break;
    case GraphKind::convolution_statistics:
      return FusionKind::statistics;
    case GraphKind::norm_convolution_statistics:
    case GraphKind::norm_backward_weights:
      return FusionKind::norm;
    case GraphKind::backward_data_norm:
      return FusionKind::norm_gradient;
    case GraphKind::backward_data_add:
      return FusionKind::addition;
    case GraphKind::backward_data_add_mask:
      return FusionKind::mask;
    case GraphKind::backward_data_tail:
    case GraphKind::backward_data_tail_norm:
      return FusionKind::tail;
  }
  return std::nullopt;
}

std::optional<std::string> fusion_site(const GraphSpec& spec) {
  const auto kind = kind_of(spec.kind);
  if (!kind) { return std::nullopt; }
  return fmt::format("{} {}", to_string(*kind), shape_words(spec));
}

std::string to_string(const GraphSpec& spec) {
  return fmt::format("{} {} n{} {}", to_string(spec.kind), to_string(spec.numeric), spec.batch,
                     shape_words(spec));
}

Fusion highest_fusion(Numeric numeric, int compute_capability) {
  if (compute_capability < 80) { return Fusion::none; }
  if (numeric != Numeric::fp16) { return Fusion::addition; }
  switch (compute_capability) {
    case 80:
    case 86:
    case 90:
      return Fusion::full;
    case 100:
      return Fusion::statistics;
    default:  // 8.9 builds the plans too, but cuDNN's manual leaves it out: not before it has run on one
      return Fusion::addition;
  }
}

Fusion widest_fusion(Numeric numeric, int compute_capability) {
  const Fusion highest = highest_fusion(numeric, compute_capability);
  // Strict fp32 must not use tensor cores, and without them nothing with sums compiles. Of 8.9 the manual
  // says nothing, as above.
  const bool left_out = numeric == Numeric::fp32 || (numeric == Numeric::fp16 && compute_capability == 89);
  return compute_capability < 80 || left_out ? highest : Fusion::full;
}

bool is_offered(FusionKind kind, Numeric numeric) {
  return kind != FusionKind::norm || numeric == Numeric::fp16 || numeric == Numeric::fp32;
}

GraphSpec convolution_graph(GraphKind kind, Numeric numeric, int batch, const Convolution& c) {
  const int in_channels = std::max(c.in_channels, padded_image_channels);
  return {kind, numeric, batch, in_channels, c.out_channels, c.in_size, c.kernel, c.stride, c.padding};
}

GraphSpec linear_graph(GraphKind kind, Numeric numeric, int batch, const Model& model) {
  return {kind, numeric, batch, model.features, model.classes, 1, 1, 1, 0};
}

bool has_sums(GraphKind kind) {
  using enum GraphKind;
  static constexpr std::array summing{convolution_statistics, norm_convolution_statistics, backward_data_tail,
                                      backward_data_tail_norm, backward_data_norm};
  return std::find(summing.begin(), summing.end(), kind) != summing.end();
}

bool is_sum(TensorId id) {
  using enum TensorId;
  static constexpr std::array sums{sum,        square_sum,          scale_grad,
                                   shift_grad, shortcut_scale_grad, shortcut_shift_grad};
  return std::find(sums.begin(), sums.end(), id) != sums.end();
}

bool is_output(TensorId id) {
  using enum TensorId;
  static constexpr std::array outputs{y,
                                      dx,
                                      dw,
                                      sum,
                                      square_sum,
                                      scale_grad,
                                      shift_grad,
                                      factor_dy,
                                      factor_x,
                                      constant,
                                      shortcut_scale_grad,
                                      shortcut_shift_grad,
                                      shortcut_factor_dy,
                                      shortcut_factor_x,
                                      shortcut_constant};
  return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}

}  // namespace virtrain::resnet50::cuda
