#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/resnet50/model.h"

/// Where the parameters lie in device memory, as plain data: no CUDA here.
namespace virtrain::resnet50::cuda {

/// Two blocks of memory: one update, and one all-reduce of a range, serve many parameters at once.
enum class ParameterGroup {
  weights,  ///< what cuDNN multiplies: its copy and its gradients have the activations' type
  vectors,  ///< scales, shifts and the bias: fp32 everywhere
};

/// One parameter's part of its group's block.
struct ParameterSlice {
  std::size_t parameter = 0;  ///< index into parameters(model)
  ParameterGroup group = ParameterGroup::weights;
  std::int64_t first = 0;  ///< element in the block
  std::int64_t count = 0;  ///< elements as stored: the images' channels are padded
};

/// Slices begin at multiples of this: 128 bytes in 16 bits. The elements between them stay zero.
inline constexpr std::int64_t slice_alignment = 64;

struct ParameterLayout {
  std::vector<ParameterSlice> slices;  ///< in the order in which the backward pass finishes gradients
  std::int64_t weights_count = 0;      ///< elements of the block
  std::int64_t vectors_count = 0;

  std::int64_t count(ParameterGroup group) const {
    return group == ParameterGroup::weights ? weights_count : vectors_count;
  }
};
/// The model's order reversed.
ParameterLayout lay_out_parameters(const Model& model);

/// Torch's K, C, R, S to K, R, S, C as cuDNN wants it, channels padded with zeros; others as they are.
std::vector<float> to_device_order(const Parameter& parameter, std::span<const float> plain);
/// And back, without the padding.
std::vector<float> to_plain_order(const Parameter& parameter, std::span<const float> stored);

}  // namespace virtrain::resnet50::cuda
