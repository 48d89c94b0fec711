#include "workloads/resnet50/cpu/network.h"

#include <array>
#include <cstring>

#include "workloads/resnet50/cpu/operations/elementwise.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cpu {
namespace {

std::span<float> floats(const Tensor& tensor) {
  return {static_cast<float*>(tensor.get_data_handle()), stored_elements(tensor.get_desc())};
}

}  // namespace

Network::UnitState Network::make_unit(const Unit& unit, bool input_gradient, bool keeps_output) {
  const Convolution& c = unit.convolution;
  UnitState state;
  state.first_parameter = next_parameter_;
  next_parameter_ += 3;
  state.convolution = std::make_unique<ConvolutionOperation>(
      device_,
      ConvolutionShape{batch_size_, c.in_channels, c.out_channels, c.in_size, c.kernel, c.stride, c.padding},
      input_gradient);
  const Layout layout = state.convolution->destination_layout();
  state.norm = std::make_unique<BatchNormOperation>(device_, layout, unit.relu);
  state.convolved = device_.allocate(layout);
  if (keeps_output) { state.out = device_.allocate(layout); }
  const auto channels = static_cast<std::size_t>(unit.norm.channels);
  state.running = {std::vector<float>(channels, 0.0F), std::vector<float>(channels, 1.0F)};
  return state;
}

Network::Network(Device& device, const Model& model, int batch_size)
    : device_(device), model_(model), batch_size_(batch_size) {
  stem_ = make_unit(model.stem, false, true);
  stem_pool_ = std::make_unique<PoolOperation>(device, PoolOperation::Kind::maximum, stem_.norm->layout(),
                                               model.pool_size, 3, 2, 1);
  pooled_ = device.allocate(stem_pool_->destination_layout());
  for (const Block& block : model.blocks) {
    BlockState& state = blocks_.emplace_back();
    for (const Unit& unit : block.units) { state.units.push_back(make_unit(unit, true, true)); }
    if (block.shortcut) {
      state.shortcut = std::make_unique<UnitState>(make_unit(*block.shortcut, true, false));
    }
  }
  average_ =
      std::make_unique<PoolOperation>(device, PoolOperation::Kind::average,
                                      blocks_.back().units.back().norm->layout(), 1, model.final_size, 1, 0);
  averaged_ = device.allocate(average_->destination_layout());
  linear_ = std::make_unique<LinearOperation>(device, batch_size, model.features, model.classes);
  features_rows_ = device.allocate(linear_->source_layout());
  const Layout features({batch_size, model.features, 1, 1}, device.activation_type(),
                        dnnl::memory::format_tag::nchw);
  features_ = Tensor(features, device.engine(), features_rows_.get_data_handle());
  logits_ = device.allocate(linear_->destination_layout());
  logits_gradient_ = device.allocate(linear_->destination_layout());
}

std::vector<Layout> Network::parameter_layouts() const {
  std::vector<Layout> layouts;
  const auto add = [&](const UnitState& unit) {
    layouts.push_back(unit.convolution->master_layout());
    const Layout channels = vector_layout(onednn::dims_of(unit.norm->layout())[1]);
    layouts.push_back(channels);
    layouts.push_back(channels);
  };
  add(stem_);
  for (const BlockState& block : blocks_) {
    for (const UnitState& unit : block.units) { add(unit); }
    if (block.shortcut) { add(*block.shortcut); }
  }
  layouts.push_back(linear_->master_layout());
  layouts.push_back(vector_layout(model_.classes));
  return layouts;
}

std::vector<RunningStatistics> Network::running_statistics() const {
  std::vector<RunningStatistics> all{stem_.running};
  for (const BlockState& block : blocks_) {
    for (const UnitState& unit : block.units) { all.push_back(unit.running); }
    if (block.shortcut) { all.push_back(block.shortcut->running); }
  }
  return all;
}

Tensor Network::prepare_images(const std::vector<float>& images) {
  const Tensor plain(plain_layout({batch_size_, 3, model_.image_size, model_.image_size}), device_.engine(),
                     const_cast<float*>(images.data()));
  Tensor prepared = device_.allocate(stem_.convolution->source_layout());
  device_.reorder(plain, prepared);
  return prepared;
}

void Network::forward_unit(UnitState& unit, const Tensor& in, const Tensor& out) {
  const std::size_t p = unit.first_parameter;
  unit.convolution->forward(in, store_->master(p), unit.convolved);
  unit.norm->forward(unit.convolved, store_->master(p + 1), store_->master(p + 2), out);
  unit.norm->update_running(unit.running.mean.data(), unit.running.variance.data(), norm_momentum);
}

void Network::forward_block(BlockState& block, const Tensor& in) {
  const Tensor* unit_in = &in;
  for (UnitState& unit : block.units) {
    forward_unit(unit, *unit_in, unit.out);
    unit_in = &unit.out;
  }
  const Tensor& out = block.units.back().out;
  if (block.shortcut) {
    const Tensor shortcut = device_.scratch(Scratch::gradient_a, block.shortcut->norm->layout());
    forward_unit(*block.shortcut, in, shortcut);
    add_relu(out, device_.in_layout(shortcut, out.get_desc(), Scratch::gradient_b));
  } else {
    add_relu(out, device_.in_layout(in, out.get_desc(), Scratch::gradient_b));
  }
}

double Network::forward(const Tensor& images, const std::vector<std::int64_t>& labels) {
  images_ = images;
  forward_unit(stem_, images, stem_.out);
  stem_pool_->forward(stem_.out, pooled_);
  const Tensor* in = &pooled_;
  for (BlockState& block : blocks_) {
    forward_block(block, *in);
    in = &block.units.back().out;
  }
  average_->forward(*in, averaged_);
  device_.reorder(averaged_, features_);
  const std::size_t linear = next_parameter_;
  linear_->forward(features_rows_, store_->master(linear), store_->master(linear + 1), logits_);
  return softmax_cross_entropy(floats(logits_), labels, model_.classes, floats(logits_gradient_));
}

void Network::backward_norm_and_weights(UnitState& unit, const Tensor& in, const Tensor& gradient,
                                        const Tensor& norm_gradient, const Ready& ready) {
  const std::size_t p = unit.first_parameter;
  unit.norm->backward(unit.convolved, store_->master(p + 1), store_->master(p + 2), gradient, norm_gradient,
                      store_->gradient(p + 1), store_->gradient(p + 2));
  unit.convolution->backward_weights(in, norm_gradient, store_->gradient(p));
  ready(store_->gradient_end(p));
}

Tensor Network::backward_unit(UnitState& unit, const Tensor& in, const Tensor& gradient,
                              const Tensor& norm_gradient, Scratch slot, const Ready& ready) {
  backward_norm_and_weights(unit, in, gradient, norm_gradient, ready);
  Tensor in_gradient = device_.scratch(slot, in.get_desc());
  unit.convolution->backward_data(norm_gradient, store_->master(unit.first_parameter), in_gradient);
  return in_gradient;
}

Tensor Network::backward_head() {
  const std::size_t linear = next_parameter_;
  const Tensor rows = device_.scratch(Scratch::gradient_b, features_rows_.get_desc());
  linear_->backward(features_rows_, store_->master(linear), logits_gradient_, rows, store_->gradient(linear),
                    store_->gradient(linear + 1));
  const Tensor plain(features_.get_desc(), device_.engine(), rows.get_data_handle());
  Tensor gradient = device_.scratch(Scratch::gradient_a, blocks_.back().units.back().out.get_desc());
  average_->backward(plain, gradient);
  return gradient;
}

void Network::backward(const Ready& ready) {
  Tensor main = backward_head();
  Tensor side;  // the gradient that came through the shortcut of the block behind
  ready(store_->gradient_end(next_parameter_));
  // The block's output gradient stays in the slot of `main`; the others are free then.
  std::array<Scratch, 4> slots{Scratch::gradient_a, Scratch::gradient_b, Scratch::gradient_c,
                               Scratch::gradient_d};
  for (std::size_t b = blocks_.size(); b-- > 0;) {
    BlockState& block = blocks_[b];
    const Tensor& in = b == 0 ? pooled_ : blocks_[b - 1].units.back().out;
    std::vector<UnitState>& units = block.units;
    const Tensor& out = units[2].out;
    const Tensor& gradient = main;
    add_relu_backward(main, side, out, gradient);
    if (block.shortcut) {
      const Layout layout = block.shortcut->norm->layout();
      side = backward_unit(*block.shortcut, in, gradient, device_.scratch(slots[1], layout), slots[3], ready);
    } else {
      side = device_.in_layout(gradient, in.get_desc(), slots[3]);
    }
    const Tensor third = device_.scratch(slots[1], units[2].norm->layout());
    const Tensor second = backward_unit(units[2], units[1].out, gradient, third, slots[2], ready);
    const Tensor first = backward_unit(units[1], units[0].out, second, second, slots[1], ready);
    main = backward_unit(units[0], in, first, first, slots[2], ready);
    std::swap(slots[0], slots[2]);
  }
  // Where the max-pool's output is 0, the stem's ReLU passes nothing, so the same kernel serves here.
  add_relu_backward(main, side, pooled_, main);
  const Tensor stem_gradient = device_.scratch(slots[1], stem_.out.get_desc());
  stem_pool_->backward(main, stem_gradient);
  backward_norm_and_weights(stem_, images_, stem_gradient, stem_gradient, ready);
}

Layout plain_layout(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i > 0; --i) { strides[i - 1] = strides[i] * shape[i]; }
  return Layout(shape, dnnl::memory::data_type::f32, strides);
}

ParameterStore::ParameterStore(Device& device, std::vector<Parameter> parameters, std::vector<Layout> layouts)
    : device_(device), parameters_(std::move(parameters)), ends_(parameters_.size()) {
  constexpr std::size_t line = 16;  // floats of a cache line
  std::vector<std::size_t> starts(parameters_.size());
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    starts[i] = elements_;
    elements_ += (stored_elements(layouts[i]) + line - 1) / line * line;
    ends_[i] = elements_;
  }
  master_buffer_ = AlignedBuffer(elements_ * sizeof(float));
  velocity_buffer_ = AlignedBuffer(elements_ * sizeof(float));
  gradient_buffer_ = AlignedBuffer((elements_ + line) * sizeof(float));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    masters_.emplace_back(layouts[i], device.engine(), all_masters().data() + starts[i]);
    gradients_.emplace_back(layouts[i], device.engine(), all_gradients().data() + starts[i]);
  }
}

void ParameterStore::set(std::size_t index, const std::vector<float>& plain) {
  // oneDNN's memory wants a pointer to mutable data and only reads it.
  const Tensor source(plain_layout(parameters_[index].shape), device_.engine(),
                      const_cast<float*>(plain.data()));
  device_.reorder(source, masters_[index]);
}

std::vector<float> ParameterStore::plain(const Tensor& tensor) const {
  const Layout layout = plain_layout(onednn::dims_of(tensor.get_desc()));
  std::vector<float> values(layout.get_size() / sizeof(float));
  device_.reorder(tensor, Tensor(layout, device_.engine(), values.data()));
  return values;
}

std::uint64_t ParameterStore::hash() const {
  ParameterHash hash;
  for (const Tensor& tensor : masters_) { hash.add(plain(tensor)); }
  return hash.value();
}

std::uint64_t ParameterStore::layout_hash() const {
  ParameterHash hash;
  for (const Tensor& tensor : masters_) {
    const onednn::Blocking blocking = onednn::blocking_of(tensor.get_desc());
    std::vector<float> numbers;  // all small whole numbers: exact as floats
    for (const auto stride : blocking.strides) { numbers.push_back(static_cast<float>(stride)); }
    for (std::size_t i = 0; i < blocking.block_sizes.size(); ++i) {
      numbers.push_back(static_cast<float>(blocking.block_sizes[i]));
      numbers.push_back(static_cast<float>(blocking.block_axes[i]));
    }
    hash.add(numbers);
  }
  return hash.value();
}

}  // namespace virtrain::resnet50::cpu
