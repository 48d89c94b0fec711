#include "workloads/resnet50/cpu/parameter_store.h"

#include <cstring>

#include "workloads/resnet50/initialize.h"

namespace virtrain::resnet50::cpu {

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
