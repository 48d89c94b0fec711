#include "workloads/resnet50/cuda/writing/step_emitter.h"

#include <array>

#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cuda {

StepEmitter::StepEmitter(const Model& model, StepProgram& program)
    : model_(model), program_(program), tensors_(model, program) {
  std::vector<std::int64_t> ends;
  const auto& slices = program.parameters.slices;
  for (const ParameterSlice& slice : slices) {
    if (slice.group != ParameterGroup::weights) { continue; }
    if (!ends.empty()) { ends.back() = slice.first; }
    ends.push_back(program.parameters.weights_count);
  }
  const Element element = program.at(program.handles.weights.gradient).element;
  buckets_ = plan_buckets(ends, settings().bucket_bytes / bytes_of(element, settings().numeric));
}

void StepEmitter::add(std::vector<Operation>& operations, const std::string& name, Operation operation,
                      const Sites& sites, When when) {
  operation.name = name;
  operation.when = when;
  operation.sites = sites;
  operations.push_back(std::move(operation));
}

void StepEmitter::weights_gradient_done() {
  if (weights_done_++ != buckets_[next_bucket_].last) { return; }
  finish_gradients(ParameterGroup::weights, buckets_[next_bucket_],
                   "weights " + std::to_string(next_bucket_));
  ++next_bucket_;
}

void StepEmitter::vectors_gradients_done() {
  finish_gradients(ParameterGroup::vectors, {0, program_.parameters.vectors_count, 0}, "vectors");
}

void StepEmitter::finish_gradients(ParameterGroup group, const Bucket& range, const std::string& name) {
  const StepHandles::Block& block = group == ParameterGroup::weights ? handles().weights : handles().vectors;
  const Ref values = tensors_.micro_batch_gradients(group);
  if (settings().accumulate_steps > 1) {
    const Numeric numeric = numeric_of(values);
    emit("widen " + name, Widen{range.first, range.count, values, numeric, block.gradient}, {}, When::first);
    emit("accumulate " + name, Accumulate{range.first, range.count, values, numeric, block.gradient}, {},
         When::later);
  }
  if (settings().ranks == 1) { return; }
  AllReduce reduce{range.first, range.count, block.gradient, numeric_of(block.gradient), {}, {}};
  if (settings().stamps) {
    reduce.begin = {next_stamp(), handles().stamps};
    reduce.end = {next_stamp(), handles().stamps};
    program_.spans.push_back({"all-reduce " + name, true, reduce.begin.index, reduce.end.index});
  }
  emit("all-reduce " + name, reduce, {}, When::last);
}

void StepEmitter::update() {
  const auto emit_update = [&](const std::string& name, const auto& action) {
    add(program_.update, name, row(action), {}, When::every);
  };
  program_.exposed_begin = stamp(When::last);
  if (settings().ranks > 1) { emit_update("await all-reduce", AwaitAllReduce{}); }
  program_.exposed_end = stamp(program_.update, When::every);
  const std::array<const StepHandles::Block*, 2> blocks{&handles().weights, &handles().vectors};
  const bool scaled = settings().numeric == Numeric::fp16;  // the others have fp32's range
  const Ref scale = handles().loss_scale;
  for (const StepHandles::Block* block : blocks) {
    const std::int64_t count = at(block->masters).count;
    if (!scaled) { continue; }
    emit_update("find overflow", FindOverflow{count, block->gradient, numeric_of(block->gradient), scale});
  }
  for (const StepHandles::Block* block : blocks) {
    emit_update("update", Sgd{at(block->masters).count, block->gradient, numeric_of(block->gradient),
                              block->masters, block->velocity, block->copy, handles().rule, scale});
  }
  if (scaled) { emit_update("advance loss scale", AdvanceLossScale{scale}); }
}

void StepEmitter::add_stamps() {
  // At the begin of the step, of its last micro-batch and of its backward pass, three at its end.
  const std::size_t reductions = settings().ranks > 1 ? buckets_.size() + 1 : 0;
  program_.handles.stamps = tensors_.add_stamps(static_cast<std::int64_t>(6 + 2 * reductions));
}

int StepEmitter::stamp(std::vector<Operation>& operations, When when) {
  if (!settings().stamps) { return 0; }
  add(operations, "stamp", row(Stamp{next_stamp(), handles().stamps}), {}, when);
  return stamps_ - 1;
}

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

std::vector<Bucket> plan_buckets(std::span<const std::int64_t> ends, std::int64_t bucket_elements) {
  std::vector<Bucket> buckets;
  if (ends.empty()) { return buckets; }
  const BucketRule rule(ends.back(), bucket_elements);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!rule.is_complete(first, ends[i]) && i + 1 < ends.size()) { continue; }
    buckets.push_back({first, ends[i] - first, i});
    first = ends[i];
  }
  return buckets;
}

}  // namespace virtrain::resnet50::cuda
