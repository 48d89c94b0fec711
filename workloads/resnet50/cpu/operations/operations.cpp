#include "workloads/resnet50/cpu/operations/operations.h"

#include "workloads/resnet50/cpu/operations/weights_gradient.h"
#include "workloads/resnet50/cpu/operations/winograd.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cpu {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using dims = dnnl::memory::dims;
using tag = dnnl::memory::format_tag;
using type = dnnl::memory::data_type;

Layout any(const dims& extents, type data_type) {
  return Layout(extents, data_type, tag::any);
}

}  // namespace

Layout vector_layout(std::int64_t length) {
  return Layout({length}, type::f32, tag::x);
}

ConvolutionOperation::ConvolutionOperation(Device& device, const ConvolutionShape& shape, bool input_gradient)
    : device_(device) {
  const type activation = device.activation_type();
  const int out_size = shape.out_size();
  const Layout source = any({shape.batch, shape.in_channels, shape.in_size, shape.in_size}, activation);
  const Layout destination = any({shape.batch, shape.out_channels, out_size, out_size}, activation);
  const dims filter{shape.out_channels, shape.in_channels, shape.kernel, shape.kernel};
  const dims strides{shape.stride, shape.stride};
  const dims padding{shape.padding, shape.padding};
  const dnnl::engine& engine = device.engine();

  const auto method = algorithm::convolution_direct;
  forward_descriptor_ = onednn::describe<dnnl::convolution_forward>(engine, prop_kind::forward_training,
                                                                    method, source, any(filter, activation),
                                                                    destination, strides, padding, padding);
  weights_descriptor_ = onednn::describe_backward<dnnl::convolution_backward_weights>(
      engine, forward_descriptor_, method, source, any(filter, type::f32), destination, strides, padding,
      padding);
  forward_ = dnnl::convolution_forward(forward_descriptor_);
  backward_weights_ = dnnl::convolution_backward_weights(weights_descriptor_);
  if (auto made =
          WinogradConvolution::make(device, shape, source_layout(), destination_layout(), master_layout())) {
    winograd_ = std::make_unique<WinogradConvolution>(*made);
  }
  if (auto made =
          WeightsGradient::make(device, shape, source_layout(), destination_layout(), master_layout())) {
    weights_gradient_ = std::make_unique<WeightsGradient>(*made);
  }
  if (!input_gradient) { return; }
  data_descriptor_ = onednn::describe_backward<dnnl::convolution_backward_data>(
      engine, forward_descriptor_, method, source, any(filter, activation), destination, strides, padding,
      padding);
  backward_data_ = dnnl::convolution_backward_data(data_descriptor_);
}

ConvolutionOperation::~ConvolutionOperation() = default;

void ConvolutionOperation::forward(const Tensor& source, const Tensor& master, const Tensor& destination) {
  const auto& descriptor = forward_descriptor_;
  const Layout wanted = descriptor.dst_desc();
  const bool direct = destination.get_desc() == wanted;
  const Tensor out = direct ? destination : device_.scratch(Scratch::destination, wanted);
  const Tensor in = device_.in_layout(source, descriptor.src_desc(), Scratch::source);
  if (winograd_) {
    winograd_->forward(in, master, out);
  } else {
    const Tensor weights = device_.in_layout(master, descriptor.weights_desc(), Scratch::weights);
    forward_.execute(device_.stream(),
                     {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, out}});
  }
  if (!direct) { device_.reorder(out, destination); }
}

void ConvolutionOperation::backward_weights(const Tensor& source, const Tensor& destination_gradient,
                                            const Tensor& master_gradient) {
  const auto& descriptor = weights_descriptor_;
  const bool own = winograd_ || weights_gradient_;
  const Layout in_layout = own ? source_layout() : descriptor.src_desc();
  const Layout out_layout = own ? destination_layout() : descriptor.diff_dst_desc();
  const Tensor in = device_.in_layout(source, in_layout, Scratch::source);
  const Tensor gradient = device_.in_layout(destination_gradient, out_layout, Scratch::destination);
  if (winograd_) { return winograd_->backward_weights(in, gradient, master_gradient); }
  if (weights_gradient_) { return weights_gradient_->run(in, gradient, master_gradient); }
  backward_weights_.execute(
      device_.stream(),
      {{DNNL_ARG_SRC, in}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_WEIGHTS, master_gradient}});
}

void ConvolutionOperation::backward_data(const Tensor& destination_gradient, const Tensor& master,
                                         const Tensor& source_gradient) {
  const auto& descriptor = data_descriptor_;
  const Layout wanted = winograd_ ? source_layout() : descriptor.diff_src_desc();
  const Layout out_layout = winograd_ ? destination_layout() : descriptor.diff_dst_desc();
  const bool direct = source_gradient.get_desc() == wanted;
  const Tensor out = direct ? source_gradient : device_.scratch(Scratch::source, wanted);
  const Tensor gradient = device_.in_layout(destination_gradient, out_layout, Scratch::destination);
  if (winograd_) {
    winograd_->backward_data(gradient, master, out);
  } else {
    const Tensor weights = device_.in_layout(master, descriptor.weights_desc(), Scratch::weights);
    backward_data_.execute(
        device_.stream(),
        {{DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, out}});
  }
  if (!direct) { device_.reorder(out, source_gradient); }
}

BatchNormOperation::BatchNormOperation(Device& device, const Layout& layout, bool relu)
    : device_(device), layout_(layout), relu_(relu) {
  auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  if (relu) { flags = flags | dnnl::normalization_flags::fuse_norm_relu; }
  const auto epsilon = static_cast<float>(norm_epsilon);
  forward_descriptor_ = onednn::describe_norm(device.engine(), layout, epsilon, flags);
  forward_ = dnnl::batch_normalization_forward(forward_descriptor_);
  backward_ = dnnl::batch_normalization_backward(
      onednn::describe_norm_backward(device.engine(), forward_descriptor_, layout, epsilon, flags));
  mean_ = device.allocate(forward_descriptor_.mean_desc());
  variance_ = device.allocate(forward_descriptor_.variance_desc());
  if (relu) { workspace_ = device.allocate(forward_descriptor_.workspace_desc()); }
}

void BatchNormOperation::forward(const Tensor& source, const Tensor& scale, const Tensor& shift,
                                 const Tensor& destination) {
  std::unordered_map<int, Tensor> arguments{{DNNL_ARG_SRC, source},  {DNNL_ARG_SCALE, scale},
                                            {DNNL_ARG_SHIFT, shift}, {DNNL_ARG_DST, destination},
                                            {DNNL_ARG_MEAN, mean_},  {DNNL_ARG_VARIANCE, variance_}};
  if (relu_) { arguments.insert({DNNL_ARG_WORKSPACE, workspace_}); }
  forward_.execute(device_.stream(), arguments);
}

void BatchNormOperation::backward(const Tensor& source, const Tensor& scale, const Tensor& shift,
                                  const Tensor& destination_gradient, const Tensor& source_gradient,
                                  const Tensor& scale_gradient, const Tensor& shift_gradient) {
  std::unordered_map<int, Tensor> arguments{
      {DNNL_ARG_SRC, source},
      {DNNL_ARG_SCALE, scale},
      {DNNL_ARG_DIFF_DST, device_.in_layout(destination_gradient, layout_, Scratch::destination)},
      {DNNL_ARG_DIFF_SRC, source_gradient},
      {DNNL_ARG_DIFF_SCALE, scale_gradient},
      {DNNL_ARG_DIFF_SHIFT, shift_gradient},
      {DNNL_ARG_MEAN, mean_},
      {DNNL_ARG_VARIANCE, variance_}};
  if (onednn::norm_backward_takes_shift) { arguments.insert({DNNL_ARG_SHIFT, shift}); }
  if (relu_) { arguments.insert({DNNL_ARG_WORKSPACE, workspace_}); }
  backward_.execute(device_.stream(), arguments);
}

void BatchNormOperation::update_running(float* mean, float* variance, double momentum) const {
  const dims extents = onednn::dims_of(layout_);
  const auto count = static_cast<double>(extents[0] * extents[2] * extents[3]);
  const double unbiased = count / (count - 1);
  const auto* const batch_mean = static_cast<const float*>(mean_.get_data_handle());
  const auto* const batch_variance = static_cast<const float*>(variance_.get_data_handle());
  for (std::int64_t c = 0; c < extents[1]; ++c) {
    mean[c] = static_cast<float>((1 - momentum) * mean[c] + momentum * batch_mean[c]);
    variance[c] = static_cast<float>((1 - momentum) * variance[c] + momentum * unbiased * batch_variance[c]);
  }
}

PoolOperation::PoolOperation(Device& device, Kind kind, const Layout& source, int out_size, int kernel,
                             int stride, int padding)
    : device_(device) {
  const dims extents = onednn::dims_of(source);
  const Layout destination = any({extents[0], extents[1], out_size, out_size}, onednn::type_of(source));
  const algorithm method =
      kind == Kind::maximum ? algorithm::pooling_max : algorithm::pooling_avg_exclude_padding;
  const dims window{kernel, kernel};
  const dims strides{stride, stride};
  // The right edge may need less padding than the left one; oneDNN wants the sizes to add up exactly.
  const std::int64_t in_size = extents[2];
  const std::int64_t end = (out_size - 1) * stride + kernel - in_size - padding;
  const dims before{padding, padding};
  const dims after{end, end};
  const onednn::Pooling pooling{method, source, destination, strides, window, before, after};
  forward_descriptor_ = onednn::describe_pooling(device.engine(), pooling);
  forward_ = dnnl::pooling_forward(forward_descriptor_);
  backward_ = dnnl::pooling_backward(
      onednn::describe_pooling_backward(device.engine(), forward_descriptor_, pooling));
  if (kind == Kind::maximum) { workspace_ = device.allocate(forward_descriptor_.workspace_desc()); }
}

void PoolOperation::forward(const Tensor& source, const Tensor& destination) {
  std::unordered_map<int, Tensor> arguments{{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, destination}};
  if (workspace_) { arguments.insert({DNNL_ARG_WORKSPACE, workspace_}); }
  forward_.execute(device_.stream(), arguments);
}

void PoolOperation::backward(const Tensor& destination_gradient, const Tensor& source_gradient) {
  std::unordered_map<int, Tensor> arguments{
      {DNNL_ARG_DIFF_DST,
       device_.in_layout(destination_gradient, forward_descriptor_.dst_desc(), Scratch::destination)},
      {DNNL_ARG_DIFF_SRC, source_gradient}};
  if (workspace_) { arguments.insert({DNNL_ARG_WORKSPACE, workspace_}); }
  backward_.execute(device_.stream(), arguments);
}

LinearOperation::LinearOperation(Device& device, int batch, int inputs, int outputs) : device_(device) {
  const type activation = device.activation_type();
  const Layout source({batch, inputs}, activation, tag::nc);
  const Layout result({batch, outputs}, type::f32, tag::nc);
  const Layout gradient({batch, outputs}, activation, tag::nc);
  const Layout bias({outputs}, type::f32, tag::x);
  const dims filter{outputs, inputs};
  const dnnl::engine& engine = device.engine();
  forward_descriptor_ = onednn::describe<dnnl::inner_product_forward>(
      engine, prop_kind::forward_training, source, any(filter, activation), bias, result);
  weights_descriptor_ = onednn::describe_backward<dnnl::inner_product_backward_weights>(
      engine, forward_descriptor_, source, any(filter, type::f32), bias, gradient);
  data_descriptor_ = onednn::describe_backward<dnnl::inner_product_backward_data>(
      engine, forward_descriptor_, source, any(filter, activation), gradient);
  forward_ = dnnl::inner_product_forward(forward_descriptor_);
  backward_weights_ = dnnl::inner_product_backward_weights(weights_descriptor_);
  backward_data_ = dnnl::inner_product_backward_data(data_descriptor_);
}

void LinearOperation::forward(const Tensor& source, const Tensor& master, const Tensor& bias,
                              const Tensor& destination) {
  forward_.execute(
      device_.stream(),
      {{DNNL_ARG_SRC, source},
       {DNNL_ARG_WEIGHTS, device_.in_layout(master, forward_descriptor_.weights_desc(), Scratch::weights)},
       {DNNL_ARG_BIAS, bias},
       {DNNL_ARG_DST, destination}});
}

void LinearOperation::backward(const Tensor& source, const Tensor& master, const Tensor& destination_gradient,
                               const Tensor& source_gradient, const Tensor& master_gradient,
                               const Tensor& bias_gradient) {
  const Tensor gradient =
      device_.in_layout(destination_gradient, weights_descriptor_.diff_dst_desc(), Scratch::destination);
  backward_weights_.execute(device_.stream(), {{DNNL_ARG_SRC, source},
                                               {DNNL_ARG_DIFF_DST, gradient},
                                               {DNNL_ARG_DIFF_WEIGHTS, master_gradient},
                                               {DNNL_ARG_DIFF_BIAS, bias_gradient}});
  backward_data_.execute(
      device_.stream(),
      {{DNNL_ARG_DIFF_DST, gradient},
       {DNNL_ARG_WEIGHTS, device_.in_layout(master, data_descriptor_.weights_desc(), Scratch::weights)},
       {DNNL_ARG_DIFF_SRC, source_gradient}});
}

}  // namespace virtrain::resnet50::cpu
