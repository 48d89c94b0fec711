#pragma once

#include <bit>
#include <cmath>
#include <random>

#include "tests/workloads/resnet50/cpu/operations/plain_operations.h"
#include "workloads/resnet50/cpu/network.h"
#include "workloads/resnet50/cpu/operations/device.h"

namespace virtrain::resnet50::plain {

using virtrain::Precision;  // for tests that use these namespaces alone

/// To the nearest bf16, ties to even.
inline float to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

/// Normal random values that the precision holds exactly.
inline Values random_values(std::size_t count, Precision precision, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (double& value : values) {
    const float drawn = normal(generator);
    value = precision == Precision::bf16 ? to_bf16(drawn) : drawn;
  }
  return values;
}

inline double tolerance(Precision precision) {
  return precision == Precision::bf16 ? 0x1p-7 : 1e-5;
}

/// A new tensor in this layout and type with these values in row-major order.
inline cpu::Tensor make_tensor(cpu::Device& device, const cpu::Layout& layout, const Values& values) {
  std::vector<float> floats(values.begin(), values.end());
  cpu::Tensor tensor = device.allocate(layout);
  device.reorder(cpu::Tensor(cpu::plain_layout(onednn::dims_of(layout)), device.engine(), floats.data()),
                 tensor);
  return tensor;
}

inline Values values_of(cpu::Device& device, const cpu::Tensor& tensor) {
  const cpu::Layout layout = cpu::plain_layout(onednn::dims_of(tensor.get_desc()));
  std::vector<float> floats(layout.get_size() / sizeof(float));
  device.reorder(tensor, cpu::Tensor(layout, device.engine(), floats.data()));
  return {floats.begin(), floats.end()};
}

}  // namespace virtrain::resnet50::plain
