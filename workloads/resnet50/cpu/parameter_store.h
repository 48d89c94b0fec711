#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/resnet50/cpu/operations/device.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cpu {

/// fp32 master parameters, their velocities and gradients: three contiguous arrays, in the order in which the
/// backward pass finishes gradients (the model's order reversed), each parameter in its operation's layout.
class ParameterStore {
 public:
  /// One layout per parameter, in the model's order.
  ParameterStore(Device& device, std::vector<Parameter> parameters, std::vector<Layout> layouts);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Tensor& master(std::size_t index) const { return masters_[index]; }
  const Tensor& gradient(std::size_t index) const { return gradients_[index]; }

  std::span<float> all_masters() const { return span(master_buffer_, elements_); }
  std::span<float> all_velocities() const { return span(velocity_buffer_, elements_); }
  std::span<float> all_gradients() const { return span(gradient_buffer_, elements_); }
  /// The gradients and one more element, which the trainer sends along.
  std::span<float> gradients_and_control() const { return span(gradient_buffer_, elements_ + 1); }
  /// End of this parameter's gradient in all_gradients(); all before it belongs to parameters behind it in
  /// the model.
  std::size_t gradient_end(std::size_t index) const { return ends_[index]; }

  void set(std::size_t index, const std::vector<float>& plain);
  std::vector<float> plain_master(std::size_t index) const { return plain(masters_[index]); }
  std::vector<float> plain_gradient(std::size_t index) const { return plain(gradients_[index]); }
  /// Hash of all master parameters in the model's order and plain layout.
  std::uint64_t hash() const;
  /// Hash of the layouts: ranks can only add up gradients if theirs are the same.
  std::uint64_t layout_hash() const;

 private:
  static std::span<float> span(const AlignedBuffer& buffer, std::size_t count) {
    return {static_cast<float*>(buffer.data()), count};
  }
  std::vector<float> plain(const Tensor& tensor) const;

  Device& device_;
  std::vector<Parameter> parameters_;
  std::size_t elements_ = 0;
  std::vector<std::size_t> ends_;
  AlignedBuffer master_buffer_;
  AlignedBuffer velocity_buffer_;
  AlignedBuffer gradient_buffer_;
  std::vector<Tensor> masters_;
  std::vector<Tensor> gradients_;
};

/// Row-major layout of this shape.
Layout plain_layout(const std::vector<std::int64_t>& shape);

}  // namespace virtrain::resnet50::cpu
