#include "workloads/resnet50/cuda/program/parameter_layout.h"

#include <algorithm>

#include "workloads/resnet50/cuda/program/graph_spec.h"

namespace virtrain::resnet50::cuda {
namespace {

ParameterGroup group_of(ParameterKind kind) {
  return kind == ParameterKind::convolution || kind == ParameterKind::linear_weight ? ParameterGroup::weights
                                                                                    : ParameterGroup::vectors;
}

/// A convolution's weights: their extents as stored.
struct Filter {
  std::int64_t out, in, stored_in, window;

  explicit Filter(const Parameter& parameter)
      : out(parameter.shape[0]),
        in(parameter.shape[1]),
        stored_in(std::max<std::int64_t>(in, padded_image_channels)),
        window(parameter.shape[2] * parameter.shape[3]) {}

  /// Calls visit(index in torch's order, index as stored) for each weight.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (std::int64_t k = 0; k < out; ++k) {
      for (std::int64_t w = 0; w < window; ++w) {
        for (std::int64_t c = 0; c < in; ++c) {
          visit(static_cast<std::size_t>((k * in + c) * window + w),
                static_cast<std::size_t>((k * window + w) * stored_in + c));
        }
      }
    }
  }
  std::int64_t stored_count() const { return out * window * stored_in; }
};

std::int64_t stored_count(const Parameter& parameter) {
  return parameter.kind == ParameterKind::convolution ? Filter(parameter).stored_count() : parameter.count();
}

}  // namespace

ParameterLayout lay_out_parameters(const Model& model) {
  ParameterLayout layout;
  const std::vector<Parameter> all = parameters(model);
  for (std::size_t i = all.size(); i-- > 0;) {
    const ParameterGroup group = group_of(all[i].kind);
    std::int64_t& end = group == ParameterGroup::weights ? layout.weights_count : layout.vectors_count;
    const std::int64_t count = stored_count(all[i]);
    layout.slices.push_back({i, group, end, count});
    end += (count + slice_alignment - 1) / slice_alignment * slice_alignment;
  }
  return layout;
}

std::vector<float> to_device_order(const Parameter& parameter, std::span<const float> plain) {
  if (parameter.kind != ParameterKind::convolution) { return {plain.begin(), plain.end()}; }
  const Filter filter(parameter);
  std::vector<float> stored(static_cast<std::size_t>(filter.stored_count()));
  filter.for_each([&](std::size_t from, std::size_t to) { stored[to] = plain[from]; });
  return stored;
}

std::vector<float> to_plain_order(const Parameter& parameter, std::span<const float> stored) {
  if (parameter.kind != ParameterKind::convolution) { return {stored.begin(), stored.end()}; }
  std::vector<float> plain(static_cast<std::size_t>(parameter.count()));
  Filter(parameter).for_each([&](std::size_t to, std::size_t from) { plain[to] = stored[from]; });
  return plain;
}

}  // namespace virtrain::resnet50::cuda
