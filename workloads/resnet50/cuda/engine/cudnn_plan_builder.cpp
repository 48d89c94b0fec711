#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "common/error.h"
#include "workloads/resnet50/cuda/engine/cudnn_plan.h"

namespace virtrain::resnet50::cuda {
namespace {

namespace fe = cudnn_frontend;
/// A graph that also tells what cuDNN notes on each of its plans: cudnn-frontend only filters by it, for
/// good.
class Graph : public fe::graph::Graph {
 public:
  bool has_note(std::int64_t plan, fe::NumericalNote_t note) const {
    const auto& notes = plans.numeric_notes.at(static_cast<std::size_t>(plan));
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  }
};
using TensorRef = std::shared_ptr<fe::graph::Tensor_attributes>;

fe::DataType_t data_type(Numeric numeric) {
  switch (numeric) {
    case Numeric::fp16:
      return fe::DataType_t::HALF;
    case Numeric::bf16:
      return fe::DataType_t::BFLOAT16;
    case Numeric::fp32:
    case Numeric::tf32:
      break;
  }
  return fe::DataType_t::FLOAT;
}

using Extents = std::vector<std::int64_t>;

/// cuDNN names extents N, C, H, W in this order whatever the layout; the strides make it NHWC (or KRSC).
Extents channels_last(const Extents& extents) {
  const std::int64_t c = extents[1], h = extents[2], w = extents[3];
  return {c * h * w, 1, c * w, c};
}

/// Builds the nodes of one GraphSpec.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, const GraphSpec& spec, SumsAs sums, std::set<TensorId>& ids)
      : graph_(graph), spec_(spec), sums_(sums), ids_(ids) {
    graph.set_io_data_type(data_type(spec.numeric))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void build() {
    switch (spec_.kind) {
      case GraphKind::convolution:
        return add_convolution(input(TensorId::x, in_extents()), false);
      case GraphKind::convolution_statistics:
        return add_convolution(input(TensorId::x, in_extents()), true);
      case GraphKind::norm_convolution_statistics:
        return add_convolution(scaled_and_shifted(), true);
      case GraphKind::backward_data:
        return output(backward_data(), TensorId::dx);
      case GraphKind::backward_data_add:
        return output(backward_data_add(), TensorId::dx);
      case GraphKind::backward_data_add_mask:
        return output(masked(), TensorId::dx);
      case GraphKind::backward_data_tail:
      case GraphKind::backward_data_tail_norm:
        return add_backward_data_tail();
      case GraphKind::backward_data_norm:
        return add_backward_data_norm();
      case GraphKind::backward_weights:
        return add_backward_weights(input(TensorId::x, in_extents()));
      case GraphKind::norm_backward_weights:
        return add_backward_weights(scaled_and_shifted());
    }
  }

 private:
  Extents in_extents() const { return {spec_.batch, spec_.in_channels, spec_.in_size, spec_.in_size}; }
  Extents out_extents() const {
    return {spec_.batch, spec_.out_channels, spec_.out_size(), spec_.out_size()};
  }
  Extents weight_extents() const {
    return {spec_.out_channels, spec_.in_channels, spec_.kernel, spec_.kernel};
  }
  Extents in_channel_extents() const { return {1, spec_.in_channels, 1, 1}; }

  TensorRef input(TensorId id, const Extents& extents) {
    ids_.insert(id);
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(static_cast<std::int64_t>(id))
                             .set_dim(extents)
                             .set_stride(channels_last(extents)));
  }
  TensorRef vector_input(TensorId id, fe::DataType_t type) {
    TensorRef tensor = input(id, in_channel_extents());
    tensor->set_data_type(type);
    return tensor;
  }
  void output(const TensorRef& tensor, TensorId id) {
    ids_.insert(id);
    tensor->set_output(true).set_uid(static_cast<std::int64_t>(id));
  }
  void fp32_output(const TensorRef& tensor, TensorId id) {
    output(tensor, id);
    tensor->set_data_type(fe::DataType_t::FLOAT);
  }
  TensorRef pointwise(fe::PointwiseMode_t mode, const TensorRef& a, const TensorRef& b) {
    return graph_.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(mode));
  }

  /// The sum over batch and space, for each channel.
  void reduce(const TensorRef& values, std::int64_t channels, TensorId id) {
    const TensorRef sum =
        graph_.reduction(values, fe::graph::Reduction_attributes().set_mode(fe::ReductionMode_t::ADD));
    const Extents extents{1, channels, 1, 1};
    sum->set_dim(extents).set_stride(channels_last(extents));
    fp32_output(sum, id);
  }

  template <typename Attributes>
  Attributes with_window(Attributes attributes) const {
    const Extents padding{spec_.padding, spec_.padding};
    const Extents stride{spec_.stride, spec_.stride};
    return attributes.set_padding(padding).set_stride(stride).set_dilation({1, 1});
  }

  /// relu(scale x + shift), never stored. The engines that do it want fp16 vectors.
  TensorRef scaled_and_shifted() {
    const TensorRef x = input(TensorId::x, in_extents());
    const TensorRef scaled =
        pointwise(fe::PointwiseMode_t::MUL, x, vector_input(TensorId::scale, data_type(spec_.numeric)));
    const TensorRef shifted =
        pointwise(fe::PointwiseMode_t::ADD, scaled, vector_input(TensorId::shift, data_type(spec_.numeric)));
    TensorRef activated =
        graph_.pointwise(shifted, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
    activated->set_data_type(data_type(spec_.numeric));
    return activated;
  }

  void add_convolution(const TensorRef& x, bool statistics) {
    const TensorRef y = graph_.conv_fprop(x, input(TensorId::w, weight_extents()),
                                          with_window(fe::graph::Conv_fprop_attributes()));
    output(y, TensorId::y);
    y->set_data_type(data_type(spec_.numeric));
    if (!statistics) { return; }
    if (sums_ == SumsAs::reductions) {
      reduce(y, spec_.out_channels, TensorId::sum);
      reduce(pointwise(fe::PointwiseMode_t::MUL, y, y), spec_.out_channels, TensorId::square_sum);
      return;
    }
    const auto [sum, square_sum] = graph_.genstats(y, fe::graph::Genstats_attributes());
    fp32_output(sum, TensorId::sum);
    fp32_output(square_sum, TensorId::square_sum);
  }

  TensorRef backward_data() {
    TensorRef dx = graph_.conv_dgrad(input(TensorId::dy, out_extents()), input(TensorId::w, weight_extents()),
                                     with_window(fe::graph::Conv_dgrad_attributes()));
    dx->set_dim(in_extents()).set_stride(channels_last(in_extents()));
    return dx;
  }

  TensorRef backward_data_add() {
    return pointwise(fe::PointwiseMode_t::ADD, backward_data(), input(TensorId::other, in_extents()));
  }
  TensorRef masked() {
    TensorRef mask = input(TensorId::mask, in_extents());
    mask->set_data_type(fe::DataType_t::BOOLEAN);
    return pointwise(fe::PointwiseMode_t::MUL, backward_data_add(), mask);
  }

  /// The tensors of a norm.
  struct NormIds {
    TensorId x, mean, inverse_std, scale, shift, scale_grad, shift_grad, factor_dy, factor_x, constant;
  };
  static constexpr NormIds main_norm{TensorId::x,          TensorId::mean,      TensorId::inverse_std,
                                     TensorId::scale,      TensorId::shift,     TensorId::scale_grad,
                                     TensorId::shift_grad, TensorId::factor_dy, TensorId::factor_x,
                                     TensorId::constant};
  static constexpr NormIds shortcut_norm{TensorId::shortcut,
                                         TensorId::shortcut_mean,
                                         TensorId::shortcut_inverse_std,
                                         TensorId::shortcut_scale,
                                         TensorId::shortcut_shift,
                                         TensorId::shortcut_scale_grad,
                                         TensorId::shortcut_shift_grad,
                                         TensorId::shortcut_factor_dy,
                                         TensorId::shortcut_factor_x,
                                         TensorId::shortcut_constant};

  /// A norm that is computed again, to know where its ReLU passed instead of reading a stored mask.
  struct Norm {
    NormIds ids;
    TensorRef x, mean, inverse_std, scale;
    TensorRef standard = nullptr, out = nullptr;
  };
  Norm normalized(const NormIds& ids) {
    const auto vector = [this](TensorId id) { return vector_input(id, fe::DataType_t::FLOAT); };
    Norm norm{ids, input(ids.x, in_extents()), vector(ids.mean), vector(ids.inverse_std), vector(ids.scale)};
    const TensorRef centered = pointwise(fe::PointwiseMode_t::SUB, norm.x, norm.mean);
    norm.standard = pointwise(fe::PointwiseMode_t::MUL, centered, norm.inverse_std);
    const TensorRef scaled = pointwise(fe::PointwiseMode_t::MUL, norm.standard, norm.scale);
    norm.out = pointwise(fe::PointwiseMode_t::ADD, scaled, vector(ids.shift));
    return norm;
  }

  /// `gradient` where the ReLU of `before` passed, and each norm's sums over it.
  void add_norm_gradients(const TensorRef& gradient, const TensorRef& before,
                          const std::vector<Norm>& norms) {
    const TensorRef passed = pointwise(fe::PointwiseMode_t::RELU_BWD, gradient, before);
    output(passed, TensorId::dx);
    for (const Norm& norm : norms) {
      if (sums_ == SumsAs::reductions) {
        reduce(passed, spec_.in_channels, norm.ids.shift_grad);
        reduce(pointwise(fe::PointwiseMode_t::MUL, passed, norm.standard), spec_.in_channels,
               norm.ids.scale_grad);
        continue;
      }
      const auto [scale_grad, shift_grad, factor_dy, factor_x, constant] = graph_.dbn_weight(
          passed, norm.x, norm.mean, norm.inverse_std, norm.scale, fe::graph::DBN_weight_attributes());
      fp32_output(scale_grad, norm.ids.scale_grad);
      fp32_output(shift_grad, norm.ids.shift_grad);
      fp32_output(factor_dy, norm.ids.factor_dy);
      fp32_output(factor_x, norm.ids.factor_x);
      fp32_output(constant, norm.ids.constant);
    }
  }
  void add_backward_data_norm() {
    const TensorRef gradient = backward_data();
    const Norm norm = normalized(main_norm);
    add_norm_gradients(gradient, norm.out, {norm});
  }
  void add_backward_data_tail() {
    const TensorRef gradient = backward_data_add();
    std::vector<Norm> norms{normalized(main_norm)};
    TensorRef other;
    if (spec_.kind == GraphKind::backward_data_tail_norm) {
      norms.push_back(normalized(shortcut_norm));
      other = norms[1].out;
    } else {
      other = input(TensorId::shortcut, in_extents());
    }
    add_norm_gradients(gradient, pointwise(fe::PointwiseMode_t::ADD, norms[0].out, other), norms);
  }

  /// In the type of the activations: no engine sums into fp32 from narrower inputs.
  void add_backward_weights(const TensorRef& x) {
    const TensorRef dw = graph_.conv_wgrad(input(TensorId::dy, out_extents()), x,
                                           with_window(fe::graph::Conv_wgrad_attributes()));
    dw->set_dim(weight_extents()).set_stride(channels_last(weight_extents()));
    output(dw, TensorId::dw);
  }

  Graph& graph_;
  const GraphSpec& spec_;
  SumsAs sums_;
  std::set<TensorId>& ids_;  ///< of all its tensors
};

/// cuDNN-frontend's words, with the library's own where it has more to say.
std::string words(fe::error_t error) {
  std::string text(1024, '\0');
  cudnnGetLastErrorString(text.data(), text.size());
  text.resize(text.find('\0'));
  return text.empty() ? error.get_message() : error.get_message() + " (" + text + ")";
}

}  // namespace

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

struct DeviceDescription::Impl {
  std::shared_ptr<fe::DeviceProperties> properties = std::make_shared<fe::DeviceProperties>();
};

DeviceDescription::DeviceDescription(const std::string& json_text) : impl_(std::make_unique<Impl>()) {
  const fe::error_t error = impl_->properties->deserialize({json_text.begin(), json_text.end()});
  if (error.is_bad()) { throw Error("read the description of a GPU", ErrorCode::bad_input, words(error)); }
}
DeviceDescription::~DeviceDescription() = default;
DeviceDescription::DeviceDescription(DeviceDescription&&) noexcept = default;
DeviceDescription& DeviceDescription::operator=(DeviceDescription&&) noexcept = default;

namespace {

using Note = fe::NumericalNote_t;
/// Strict fp32 must not be rounded to tf32 on the way into the tensor cores, nor lose digits in transforms;
/// those of Winograd's smallest tiles lose next to none.
constexpr std::array lossy{Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS, Note::FFT, Note::WINOGRAD_TILE_6x6,
                           Note::WINOGRAD_TILE_13x13};

}  // namespace

struct BuiltGraph::Impl {
  cudnnHandle_t handle = nullptr;  ///< null for a GPU that is only described
  GraphSpec spec;
  SumsAs sums = SumsAs::node;
  std::set<TensorId> ids;
  Graph graph;
  std::int64_t offered = 0;
  std::map<std::int64_t, bool> is_built;  ///< of the plans that were tried
  std::string refusal;

  bool accepts(const fe::error_t& error) {
    if (error.is_bad()) { refusal = words(error); }
    return error.is_good();
  }

  void ask_for_plans() {
    GraphBuilder(graph, spec, sums, ids).build();
    if (!accepts(graph.validate()) ||
        !accepts(handle ? graph.build_operation_graph(handle) : graph.build_operation_graph()) ||
        !accepts(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}))) {
      return;
    }
    if (spec.numeric == Numeric::fp32) { graph.deselect_numeric_notes({lossy.begin(), lossy.end()}); }
    offered = graph.get_execution_plan_count();
  }
};

BuiltGraph::BuiltGraph(const GraphSpec& spec, cudnnContext* handle, SumsAs sums)
    : impl_(std::make_unique<Impl>()) {
  impl_->handle = handle;
  impl_->spec = spec;
  impl_->sums = sums;
  impl_->ask_for_plans();
}
BuiltGraph::BuiltGraph(const GraphSpec& spec, const DeviceDescription& device, SumsAs sums)
    : impl_(std::make_unique<Impl>()) {
  impl_->spec = spec;
  impl_->sums = sums;
  impl_->graph.set_device_properties(device.impl_->properties);
  impl_->ask_for_plans();
}
BuiltGraph::~BuiltGraph() = default;
BuiltGraph::BuiltGraph(BuiltGraph&&) noexcept = default;
BuiltGraph& BuiltGraph::operator=(BuiltGraph&&) noexcept = default;

std::int64_t BuiltGraph::offered() const {
  return impl_->offered;
}

const std::string& BuiltGraph::refusal() const {
  return impl_->refusal;
}

SumsAs BuiltGraph::sums() const {
  return impl_->sums;
}

std::optional<std::string> BuiltGraph::name(std::int64_t index) {
  std::string name;
  if (!impl_->accepts(impl_->graph.get_plan_name_at_index(index, name))) { return std::nullopt; }
  return name;
}

bool BuiltGraph::is_runtime_compiled(std::int64_t index) const {
  std::vector<fe::BehaviorNote_t> notes;
  if (impl_->graph.get_behavior_notes_for_plan_at_index(index, notes).is_bad()) { return false; }
  return std::find(notes.begin(), notes.end(), fe::BehaviorNote_t::RUNTIME_COMPILATION) != notes.end();
}

bool BuiltGraph::is_repeatable(std::int64_t index) const {
  return !impl_->graph.has_note(index, fe::NumericalNote_t::NONDETERMINISTIC);
}

bool BuiltGraph::is_selected(std::int64_t index) const {
  return impl_->spec.numeric != Numeric::fp32 || std::none_of(lossy.begin(), lossy.end(), [&](Note note) {
           return impl_->graph.has_note(index, note);
         });
}

bool BuiltGraph::build(std::int64_t index) {
  const auto known = impl_->is_built.find(index);
  if (known != impl_->is_built.end()) { return known->second; }
  return impl_->is_built[index] =
             impl_->accepts(impl_->handle ? impl_->graph.build_plan_at_index(impl_->handle, index)
                                          : impl_->graph.build_plan_at_index(index));
}

std::optional<std::int64_t> BuiltGraph::workspace_bytes(std::int64_t index) {
  std::int64_t bytes = 0;
  if (!impl_->accepts(impl_->graph.get_workspace_size_plan_at_index(index, bytes))) { return std::nullopt; }
  return bytes;
}

void BuiltGraph::execute(std::int64_t index, const TensorPointers& tensors, void* workspace) const {
  std::unordered_map<std::int64_t, void*> pack;
  for (const auto& [id, pointer] : tensors) {  // reductions give no factors
    if (impl_->ids.contains(id)) { pack.emplace(static_cast<std::int64_t>(id), pointer); }
  }
  const fe::error_t error = impl_->graph.execute_plan_at_index(impl_->handle, pack, workspace, index);
  if (error.is_bad()) { throw Error("run " + to_string(impl_->spec), ErrorCode::io, words(error)); }
}

}  // namespace virtrain::resnet50::cuda
