#include "workloads/resnet50/cuda/graph_spec.h"

#include <fmt/format.h>

#include <algorithm>

namespace virtrain::resnet50::cuda {
namespace {

GraphSpec convolution_spec(GraphKind kind, Numeric numeric, int batch, const Convolution& c) {
  const int in_channels = std::max(c.in_channels, padded_image_channels);
  return {kind, numeric, batch, in_channels, c.out_channels, c.in_size, c.kernel, c.stride, c.padding};
}

class Collector {
 public:
  Collector(int batch, Numeric numeric, Fusion fusion) : batch_(batch), numeric_(numeric), fusion_(fusion) {}

  void add(const GraphSpec& spec) {
    if (std::find(specs_.begin(), specs_.end(), spec) == specs_.end()) specs_.push_back(spec);
  }
  void add(GraphKind kind, const Convolution& c) { add(convolution_spec(kind, numeric_, batch_, c)); }

  /// No engine of cuDNN sums in the 7x7, and no gradient goes back to the images.
  void add_stem(const Unit& stem) {
    add(GraphKind::convolution, stem.convolution);
    add(GraphKind::backward_weights, stem.convolution);
  }

  void add_block(const Block& block) {
    for (std::size_t i = 0; i < block.units.size(); ++i) {
      const bool reads_norm = i > 0 && fusion_ == Fusion::full;  // the block's input is stored after its ReLU
      const Convolution& c = block.units[i].convolution;
      add(forward_kind(reads_norm), c);
      add(reads_norm ? GraphKind::norm_backward_weights : GraphKind::backward_weights, c);
      add(data_kind(i, reads_norm), c);
    }
    if (block.shortcut) {
      add(forward_kind(false), block.shortcut->convolution);
      add(GraphKind::backward_weights, block.shortcut->convolution);
      add(GraphKind::backward_data, block.shortcut->convolution);
    }
  }

  void add_linear(const Model& model) {
    for (const GraphKind kind :
         {GraphKind::convolution, GraphKind::backward_data, GraphKind::backward_weights}) {
      add({kind, numeric_, batch_, model.features, model.classes, 1, 1, 1, 0});
    }
  }

  std::vector<GraphSpec> take() { return std::move(specs_); }

 private:
  GraphKind forward_kind(bool reads_norm) const {
    if (reads_norm) return GraphKind::norm_convolution_statistics;
    return fusion_ < Fusion::statistics ? GraphKind::convolution : GraphKind::convolution_statistics;
  }
  GraphKind data_kind(std::size_t unit, bool reads_norm) const {
    if (reads_norm) return GraphKind::backward_data_norm;
    return unit == 0 && fusion_ != Fusion::none ? GraphKind::backward_data_add : GraphKind::backward_data;
  }

  int batch_;
  Numeric numeric_;
  Fusion fusion_;
  std::vector<GraphSpec> specs_;
};

}  // namespace

const char* to_string(Numeric numeric) {
  switch (numeric) {
    case Numeric::fp32:
      return "fp32";
    case Numeric::tf32:
      return "tf32";
    case Numeric::bf16:
      return "bf16";
    case Numeric::fp16:
      return "fp16";
  }
  return "?";
}

int element_bytes(Numeric numeric) {
  return numeric == Numeric::fp32 || numeric == Numeric::tf32 ? 4 : 2;
}

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
    case GraphKind::backward_data_norm:
      return "backward_data_norm";
    case GraphKind::backward_weights:
      return "backward_weights";
    case GraphKind::norm_backward_weights:
      return "norm_backward_weights";
  }
  return "?";
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

bool is_possible(Numeric numeric, int compute_capability) {
  const bool old_format = numeric == Numeric::fp32 || numeric == Numeric::fp16;
  return old_format || compute_capability >= 80;
}

Fusion highest_fusion(Numeric numeric, int compute_capability) {
  if (compute_capability < 80) return Fusion::none;
  if (numeric != Numeric::fp16) return Fusion::addition;
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

std::vector<GraphSpec> graphs_of_step(const Model& model, int batch, Numeric numeric, Fusion fusion) {
  Collector collector(batch, numeric, fusion);
  collector.add_stem(model.stem);
  for (const Block& block : model.blocks) collector.add_block(block);
  collector.add_linear(model);
  return collector.take();
}

GraphSpec fallback(const GraphSpec& spec) {
  GraphSpec plainer = spec;
  switch (spec.kind) {
    case GraphKind::norm_convolution_statistics:
      plainer.kind = GraphKind::convolution_statistics;
      break;
    case GraphKind::convolution_statistics:
      plainer.kind = GraphKind::convolution;
      break;
    case GraphKind::backward_data_add:
    case GraphKind::backward_data_norm:
      plainer.kind = GraphKind::backward_data;
      break;
    case GraphKind::norm_backward_weights:
      plainer.kind = GraphKind::backward_weights;
      break;
    case GraphKind::convolution:
    case GraphKind::backward_data:
    case GraphKind::backward_weights:
      break;
  }
  return plainer;
}

}  // namespace virtrain::resnet50::cuda
