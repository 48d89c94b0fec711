#include "workloads/resnet50/cpu/operations/device.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>

namespace virtrain::resnet50::cpu {
namespace {

constexpr std::size_t alignment_bytes = 64;

dnnl::memory::data_type data_type(Precision precision) {
  return precision == Precision::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

}  // namespace

std::vector<Precision> possible_precisions() {
  if (onednn::multiplies_bfloat16()) { return {Precision::fp32, Precision::bf16}; }
  return {Precision::fp32};
}

std::string onednn_version() {
  const dnnl::version_t* version = dnnl::version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

AlignedBuffer::AlignedBuffer(std::size_t bytes) : bytes_(bytes) {
  const std::size_t rounded = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  data_.reset(std::aligned_alloc(alignment_bytes, std::max(rounded, alignment_bytes)));
  if (!data_) { throw std::bad_alloc(); }
  auto* const start = static_cast<char*>(data_.get());
#pragma omp parallel for schedule(static)
  for (std::size_t line = 0; line < rounded / alignment_bytes; ++line) {
    std::memset(start + line * alignment_bytes, 0, alignment_bytes);
  }
}

void AlignedBuffer::Free::operator()(void* pointer) const {
  std::free(pointer);
}

Device::Device(Precision precision)
    : precision_(precision), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

dnnl::memory::data_type Device::activation_type() const {
  return data_type(precision_);
}

Tensor Device::allocate(const Layout& layout) {
  owned_.emplace_back(layout.get_size());
  return Tensor(layout, engine_, owned_.back().data());
}

Tensor Device::scratch(Scratch slot, const Layout& layout) {
  AlignedBuffer& buffer = scratch_[slot];
  if (buffer.bytes() < layout.get_size()) { buffer = AlignedBuffer(layout.get_size()); }
  return Tensor(layout, engine_, buffer.data());
}

void Device::reorder(const Tensor& from, const Tensor& to) {
  const std::unordered_map<int, Tensor> arguments{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  const Layout from_layout = from.get_desc();
  const Layout to_layout = to.get_desc();
  for (Reorder& known : reorders_) {
    if (known.from == from_layout && known.to == to_layout) {
      known.primitive.execute(stream_, arguments);
      return;
    }
  }
  reorders_.push_back({from_layout, to_layout, dnnl::reorder(from, to)});
  reorders_.back().primitive.execute(stream_, arguments);
}

Tensor Device::in_layout(const Tensor& tensor, const Layout& layout, Scratch slot) {
  if (tensor.get_desc() == layout) { return tensor; }
  if (slot != Scratch::weights && slot != Scratch::master) { ++activation_reorders_; }
  Tensor copy = scratch(slot, layout);
  reorder(tensor, copy);
  return copy;
}

std::size_t stored_elements(const Layout& layout) {
  return layout.get_size() / dnnl::memory::data_type_size(onednn::type_of(layout));
}

}  // namespace virtrain::resnet50::cpu
