#include "workloads/resnet50/cuda/writing/step_tensors.h"

namespace virtrain::resnet50::cuda {
namespace {

/// Up to a multiple of 128 bytes of the narrowest type.
std::int64_t padded(std::int64_t elements) {
  constexpr std::int64_t multiple = 64;
  return (elements + multiple - 1) / multiple * multiple;
}

}  // namespace

StepTensors::StepTensors(const Model& model, StepProgram& program) : program_(program) {
  const StepSettings& settings = program.settings;
  StepHandles& handles = program.handles;
  const std::int64_t pixels = static_cast<std::int64_t>(model.image_size) * model.image_size;
  // Each part begins where a graph may read it: its engines are chosen for pointers aligned to 16 bytes.
  handles.images =
      per_micro_batch("images", Element::activation, padded(settings.batch * pixels * padded_image_channels));
  handles.labels = per_micro_batch("labels", Element::int32, settings.batch);
  handles.losses = per_micro_batch("losses", Element::fp32, 1);
  handles.loss_scale = persistent("loss_scale", Element::loss_scale, 1);
  handles.rule = persistent("rule", Element::sgd_rule, 1);

  program.parameters = lay_out_parameters(model);
  const std::int64_t weights = program.parameters.weights_count;
  weights_gradients_ = add_block(handles.weights, "weights", Element::activation, weights);
  vectors_gradients_ = add_block(handles.vectors, "vectors", Element::fp32, program.parameters.vectors_count);
  if (element_bytes(settings.numeric) < 4) {
    handles.weights.copy = persistent("weights.copy", Element::activation, weights);
  }
  add_parameters(resnet50::parameters(model));
  add_norms(model);
  constexpr std::int64_t sums = std::int64_t{most_partial_blocks} * channels_of_group;
  partial_ = {persistent("sums.first", Element::fp32, sums), persistent("sums.second", Element::fp32, sums),
              persistent("sums.tickets", Element::int32, most_channel_groups * tickets_of_group)};
}

Ref StepTensors::add(ProgramTensor tensor) {
  program_.tensors.push_back(std::move(tensor));
  return static_cast<Ref>(program_.tensors.size()) - 1;
}

Ref StepTensors::step(const std::string& name, Element element, std::int64_t count) {
  return add({name, element, count, false, false, no_tensor, 0});
}

Ref StepTensors::persistent(const std::string& name, Element element, std::int64_t count) {
  return add({name, element, count, true, false, no_tensor, 0});
}

Ref StepTensors::per_micro_batch(const std::string& name, Element element, std::int64_t count) {
  return add({name, element, count * program_.settings.accumulate_steps, true, true, no_tensor, 0});
}

Ref StepTensors::add_block(StepHandles::Block& block, const std::string& name, Element element,
                           std::int64_t count) {
  block.masters = persistent(name + ".masters", Element::fp32, count);
  block.velocity = persistent(name + ".velocity", Element::fp32, count);
  const Ref gradients = persistent(name + ".gradients", element, count);
  const bool sums = program_.settings.accumulate_steps > 1;
  block.gradient = sums ? persistent(name + ".gradient_sums", Element::fp32, count) : gradients;
  return gradients;
}

void StepTensors::add_parameters(const std::vector<Parameter>& all) {
  values_.resize(all.size(), no_tensor);
  gradients_.resize(all.size(), no_tensor);
  const StepHandles& handles = program_.handles;
  for (const ParameterSlice& slice : program_.parameters.slices) {
    const bool weights = slice.group == ParameterGroup::weights;
    const Ref masters = weights ? handles.weights.masters : handles.vectors.masters;
    const Ref values = weights && handles.weights.copy != no_tensor ? handles.weights.copy : masters;
    const auto view = [&](const std::string& name, Ref base) {
      const Element element = program_.at(base).element;
      return add({name, element, slice.count, true, false, base, slice.first});
    };
    values_[slice.parameter] = view(all[slice.parameter].name, values);
    gradients_[slice.parameter] =
        view("grad." + all[slice.parameter].name, micro_batch_gradients(slice.group));
  }
}

void StepTensors::add_norms(const Model& model) {
  for (std::size_t i = 0; const BatchNorm& norm : resnet50::norms(model)) {
    NormRefs refs;
    refs.gamma = parameter(3 * i + 1);  // a unit's parameters: weights, scale, shift
    refs.beta = parameter(3 * i + 2);
    refs.mean = step(norm.name + ".mean", Element::fp32, norm.channels);
    refs.inverse_std = step(norm.name + ".inverse_std", Element::fp32, norm.channels);
    refs.running_mean = persistent(norm.name + ".running_mean", Element::fp32, norm.channels);
    refs.running_variance = persistent(norm.name + ".running_var", Element::fp32, norm.channels);
    program_.handles.norms.push_back(refs);
    ++i;
  }
}

}  // namespace virtrain::resnet50::cuda
