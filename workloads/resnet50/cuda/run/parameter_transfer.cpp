#include "workloads/resnet50/cuda/run/parameter_transfer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace virtrain::resnet50::cuda {
namespace {

constexpr std::array<ParameterGroup, 2> groups{ParameterGroup::weights, ParameterGroup::vectors};

const StepHandles::Block& block_of(const StepProgram& program, ParameterGroup group) {
  return group == ParameterGroup::weights ? program.handles.weights : program.handles.vectors;
}

template <typename Value>
std::vector<Value> read_all(const StepExecutor& executor, Ref tensor) {
  std::vector<Value> values(static_cast<std::size_t>(executor.program().at(tensor).count));
  executor.read(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

float from_16_bits(Numeric numeric, std::uint16_t bits) {
  if (numeric == Numeric::bf16) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  if (exponent == 0) { size = std::ldexp(static_cast<float>(fraction), -24); }
  if (exponent == 31) { size = fraction == 0 ? INFINITY : NAN; }
  return (bits & 0x8000) != 0 ? -size : size;
}

/// Any tensor of numbers as fp32.
std::vector<float> read_floats(const StepExecutor& executor, Ref tensor) {
  const StepProgram& program = executor.program();
  if (bytes_of(program.at(tensor).element, program.settings.numeric) == 4) {
    return read_all<float>(executor, tensor);
  }
  std::vector<float> values;
  for (const std::uint16_t bits : read_all<std::uint16_t>(executor, tensor)) {
    values.push_back(from_16_bits(program.settings.numeric, bits));
  }
  return values;
}

/// Blocks by group, cut into the model's parameters.
std::vector<std::vector<float>> cut(const StepExecutor& executor, const Model& model,
                                    Ref StepHandles::Block::*which) {
  const StepProgram& program = executor.program();
  const std::vector<Parameter> all = parameters(model);
  std::vector<std::vector<float>> values(all.size());
  for (const ParameterGroup group : groups) {
    const std::vector<float> block = read_floats(executor, block_of(program, group).*which);
    for (const ParameterSlice& slice : program.parameters.slices) {
      if (slice.group != group) { continue; }
      const std::span<const float> stored(block.data() + slice.first, static_cast<std::size_t>(slice.count));
      values[slice.parameter] = to_plain_order(all[slice.parameter], stored);
    }
  }
  return values;
}

}  // namespace

void write_initial_state(StepExecutor& executor, const Model& model, std::uint64_t seed,
                         double residual_gamma, const SgdRule& rule) {
  executor.clear();
  const StepProgram& program = executor.program();
  const std::vector<Parameter> all = parameters(model);
  for (const ParameterGroup group : groups) {
    std::vector<float> block(static_cast<std::size_t>(program.parameters.count(group)));
    for (const ParameterSlice& slice : program.parameters.slices) {
      if (slice.group != group) { continue; }
      const Parameter& parameter = all[slice.parameter];
      const std::vector<float> stored =
          to_device_order(parameter, initial_value(parameter, slice.parameter, seed, residual_gamma));
      std::copy(stored.begin(), stored.end(), block.begin() + slice.first);
    }
    executor.write(block_of(program, group).masters, std::as_bytes(std::span(block)));
  }
  executor.copy_masters();
  for (const NormRefs& norm : program.handles.norms) {
    const std::vector<float> ones(static_cast<std::size_t>(program.at(norm.running_variance).count), 1.0F);
    executor.write(norm.running_variance, std::as_bytes(std::span(ones)));
  }
  LossScale loss_scale;
  loss_scale.scale = initial_loss_scale(program.settings);
  executor.write(program.handles.loss_scale, std::as_bytes(std::span(&loss_scale, 1)));
  executor.write(program.handles.rule, std::as_bytes(std::span(&rule, 1)));
}

void write_batch(StepExecutor& executor, const Batch& batch, int micro_batch) {
  executor.write_images(batch.images, micro_batch);
  const std::vector<std::int32_t> labels(batch.labels.begin(), batch.labels.end());
  executor.write(executor.program().handles.labels, std::as_bytes(std::span(labels)), micro_batch);
}

std::vector<std::vector<float>> read_parameters(const StepExecutor& executor, const Model& model) {
  return cut(executor, model, &StepHandles::Block::masters);
}

std::vector<std::vector<float>> read_gradients(const StepExecutor& executor, const Model& model,
                                               float scale) {
  std::vector<std::vector<float>> gradients = cut(executor, model, &StepHandles::Block::gradient);
  for (std::vector<float>& values : gradients) {
    for (float& value : values) { value *= scale; }
  }
  return gradients;
}

std::vector<RunningStatistics> read_running_statistics(const StepExecutor& executor) {
  std::vector<RunningStatistics> all;
  for (const NormRefs& norm : executor.program().handles.norms) {
    all.push_back(
        {read_all<float>(executor, norm.running_mean), read_all<float>(executor, norm.running_variance)});
  }
  return all;
}

}  // namespace virtrain::resnet50::cuda
