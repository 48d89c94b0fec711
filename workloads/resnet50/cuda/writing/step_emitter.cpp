#include "workloads/resnet50/cuda/writing/step_emitter.h"

#include <array>

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

}  // namespace virtrain::resnet50::cuda
