#include "workloads/resnet50/cuda/program/step_program.h"

#include <algorithm>

#include "workloads/resnet50/cuda/program/graph_spec.h"

namespace virtrain::resnet50::cuda {
namespace {

bool runs(When when, int micro_batch, int micro_batches) {
  switch (when) {
    case When::every:
      return true;
    case When::first:
      return micro_batch == 0;
    case When::later:
      return micro_batch > 0;
    case When::last:
      return micro_batch + 1 == micro_batches;
  }
  return false;
}

}  // namespace

std::int64_t bytes_of(Element element, Numeric numeric) {
  switch (element) {
    case Element::activation:
      return element_bytes(numeric);
    case Element::fp32:
    case Element::int32:
      return 4;
    case Element::byte:
      return 1;
    case Element::backward_factors:
      return sizeof(BackwardFactors);
    case Element::time:
      return sizeof(std::uint64_t);
    case Element::loss_scale:
      return sizeof(LossScale);
    case Element::sgd_rule:
      return sizeof(SgdRule);
  }
  return 0;
}

void StepProgram::for_each(const std::function<void(const Operation&, int)>& visit) const {
  for (int micro = 0; micro < settings.accumulate_steps; ++micro) {
    for (const Operation& operation : micro_batch) {
      if (runs(operation.when, micro, settings.accumulate_steps)) { visit(operation, micro); }
    }
  }
  for (const Operation& operation : update) { visit(operation, settings.accumulate_steps - 1); }
}

Numeric numeric_of(const StepProgram& program, Ref tensor) {
  return program.at(tensor).element == Element::fp32 ? Numeric::fp32 : program.settings.numeric;
}

float initial_loss_scale(const StepSettings& settings) {
  return settings.numeric == Numeric::fp16 ? 1024.0F * static_cast<float>(settings.ranks) : 1.0F;
}

std::vector<AllReduce> reductions_of(const StepProgram& program) {
  std::vector<AllReduce> all;
  for (const Operation& operation : program.micro_batch) {
    if (operation.reduction) { all.push_back(*operation.reduction); }
  }
  return all;
}

std::vector<GraphSpec> graphs_of(const StepProgram& program) {
  std::vector<GraphSpec> specs;
  for (const Operation& operation : program.micro_batch) {
    if (operation.graph && std::find(specs.begin(), specs.end(), operation.graph->spec) == specs.end()) {
      specs.push_back(operation.graph->spec);
    }
  }
  return specs;
}

std::int64_t operand_bytes(const StepProgram& program, const Operand& operand) {
  const ProgramTensor& tensor = program.at(operand.tensor);
  const int parts = tensor.per_micro_batch ? program.settings.accumulate_steps : 1;
  const std::int64_t elements = operand.elements == Operand::whole ? tensor.count / parts : operand.elements;
  return elements * bytes_of(tensor.element, program.settings.numeric);
}

std::int64_t traffic_bytes(const StepProgram& program, const Operation& operation) {
  std::int64_t bytes = 0;
  for (const Operand& operand : operation.operands) { bytes += operand_bytes(program, operand); }
  return bytes;
}

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
