#include "workloads/resnet50/cuda/program/graph_spec.h"

#include <fmt/format.h>

#include <algorithm>

namespace virtrain::resnet50::cuda {
const char* to_string(GraphKind kind) {
  switch (kind) {
    case GraphKind::convolution:
      return "convolution";
    case GraphKind::convolution_statistics:
      return "convolution_statistics";
    case GraphKind::norm_convolution_statistics:
      return "norm_convolution_statistics";
    case GraphKind::backward_data:
      return "backward_data";
    case GraphKind::backward_data_add:
      return "backward_data_add";
    case GraphKind::backward_data_add_mask:
      return "backward_data_add_mask";
    case GraphKind::backward_data_tail:
      return "backward_data_tail";
    case GraphKind::backward_data_tail_norm:
      return "backward_data_tail_norm";
    case GraphKind::backward_data_norm:
      return "backward_data_norm";
    case GraphKind::backward_weights:
      return "backward_weights";
    case GraphKind::norm_backward_weights:
      return "norm_backward_weights";
  }
  return "?";
}

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

const char* to_string(FusionKind kind) {
  switch (kind) {
    case FusionKind::addition:
      return "addition";
    case FusionKind::mask:
      return "mask";
    case FusionKind::statistics:
      return "statistics";
    case FusionKind::norm:
      return "norm";
    case FusionKind::tail:
      return "tail";
  }
  return "?";
}

Fusion level_of(FusionKind kind) {
  switch (kind) {
    case FusionKind::addition:
    case FusionKind::mask:
      return Fusion::addition;
    case FusionKind::statistics:
      return Fusion::statistics;
    case FusionKind::norm:
    case FusionKind::tail:
      break;
  }
  return Fusion::full;
}

std::string fusion_site(FusionKind kind, const Convolution& c) {
  return fmt::format("{} {}->{} {}x{} k{} s{}", to_string(kind), c.in_channels, c.out_channels, c.in_size,
                     c.in_size, c.kernel, c.stride);
}

const char* to_string(Fusion fusion) {
  switch (fusion) {
    case Fusion::none:
      return "none";
    case Fusion::addition:
      return "addition";
    case Fusion::statistics:
      return "statistics";
    case Fusion::full:
      return "full";
  }
  return "?";
}

std::string to_string(const GraphSpec& spec) {
  return fmt::format("{} {} n{} {}->{} {}x{} k{} s{}", to_string(spec.kind), to_string(spec.numeric),
                     spec.batch, spec.in_channels, spec.out_channels, spec.in_size, spec.in_size, spec.kernel,
                     spec.stride);
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

GraphSpec convolution_graph(GraphKind kind, Numeric numeric, int batch, const Convolution& c) {
  const int in_channels = std::max(c.in_channels, padded_image_channels);
  return {kind, numeric, batch, in_channels, c.out_channels, c.in_size, c.kernel, c.stride, c.padding};
}

GraphSpec linear_graph(GraphKind kind, Numeric numeric, int batch, const Model& model) {
  return {kind, numeric, batch, model.features, model.classes, 1, 1, 1, 0};
}

bool has_sums(GraphKind kind) {
  switch (kind) {
    case GraphKind::convolution_statistics:
    case GraphKind::norm_convolution_statistics:
    case GraphKind::backward_data_tail:
    case GraphKind::backward_data_tail_norm:
    case GraphKind::backward_data_norm:
      return true;
    default:
      return false;
  }
}

bool is_output(TensorId id) {
  switch (id) {
    case TensorId::y:
    case TensorId::dx:
    case TensorId::dw:
    case TensorId::sum:
    case TensorId::square_sum:
    case TensorId::scale_grad:
    case TensorId::shift_grad:
    case TensorId::factor_dy:
    case TensorId::factor_x:
    case TensorId::constant:
    case TensorId::shortcut_scale_grad:
    case TensorId::shortcut_shift_grad:
    case TensorId::shortcut_factor_dy:
    case TensorId::shortcut_factor_x:
    case TensorId::shortcut_constant:
      return true;
    default:
      return false;
  }
}

}  // namespace virtrain::resnet50::cuda
