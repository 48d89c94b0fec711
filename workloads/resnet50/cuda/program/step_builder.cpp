// Writes the step of a model as a program: the one place that knows in which order the passes go and what
// each level of fusion does instead of our kernels.

#include "workloads/resnet50/cuda/program/step_builder.h"

#include <array>

#include "workloads/resnet50/cuda/program/bucket_plan.h"
#include "workloads/resnet50/cuda/program/step_program.h"
#include "workloads/resnet50/cuda/program/step_tensors.h"

namespace virtrain::resnet50::cuda {
namespace {

/// What a convolution reads: an activation, or the raw output of the one before with the factors of its norm.
struct Source {
  Ref values = no_tensor;
  Ref scale16 = no_tensor, shift16 = no_tensor;

  bool is_normalized_on_reading() const { return scale16 != no_tensor; }
};

/// A unit after its forward pass.
struct UnitState {
  const Unit* unit = nullptr;
  std::size_t first_parameter = 0;
  Source in;
  RowShape shape;  ///< of y
  Ref y = no_tensor;
  NormRefs norm;
  Source out;
  Ref mask = no_tensor;
};

struct BlockState {
  std::vector<UnitState> units;
  std::vector<UnitState> shortcut;  ///< one or none
  Ref out = no_tensor, mask = no_tensor;
};

class StepBuilder {
 public:
  StepBuilder(const Model& model, StepProgram& program);
  void build();

 private:
  void emit(const std::string& name, Action action, When when = When::every) {
    program_.micro_batch.push_back({name, when, std::move(action)});
  }
  bool fuses(Fusion level) const { return settings_.fusion >= level; }

  UnitState begin_unit(const Unit& unit, const Source& in);
  /// The convolution and the statistics of its output.
  UnitState forward_convolution(const Unit& unit, const Source& in, bool sums_in_graph, bool factors16);
  void forward_apply(UnitState& unit);
  BlockState forward_block(const Block& block, Ref in);
  Ref forward_blocks();

  /// Loss, and back to the gradient of the last block's output.
  Ref head(Ref in);
  /// From the gradient of the norm's output to that of its input, in place unless `dx` says otherwise.
  void backward_norm(const UnitState& unit, Ref dy, Ref mask, Ref dx, Ref masked);
  void backward_weights(const UnitState& unit, Ref dy);
  Ref backward_data(const UnitState& unit, Ref dy, Ref in_for_size);
  Ref backward_data_add(const UnitState& unit, Ref dy, Ref other);
  /// Through the convolution and the norm before it.
  Ref backward_to_previous(const UnitState& unit, const UnitState& previous, Ref dy);
  Ref backward_data_norm(const UnitState& unit, const UnitState& previous, Ref dy);
  Ref backward_block(const BlockState& block, Ref dy);
  void backward_stem(Ref dy);

  /// Weights' gradients come in the order of the parameters' layout; what completes a bucket sends it.
  void weights_gradient_done();
  void finish_gradients(ParameterGroup group, const Bucket& range, const std::string& name);
  void update();
  /// Notes the time here; returns the stamp's index.
  int stamp(std::vector<Operation>& operations, When when);
  int next_stamp() { return stamps_++; }
  GraphSpec spec(GraphKind kind, const UnitState& unit) const {
    return convolution_graph(kind, settings_.numeric, settings_.batch, unit.unit->convolution);
  }

  const Model& model_;
  StepProgram& program_;
  const StepSettings& settings_;
  StepTensors tensors_;
  std::vector<Bucket> buckets_;  ///< of the weights
  int stamps_ = 0;
  int loss_done_ = 0;  ///< stamp
  std::size_t next_bucket_ = 0, weights_done_ = 0, next_unit_ = 0;

  UnitState stem_;
  Ref pool_position_ = no_tensor;
  std::vector<BlockState> blocks_;
};

StepBuilder::StepBuilder(const Model& model, StepProgram& program)
    : model_(model), program_(program), settings_(program.settings), tensors_(model, program) {
  std::vector<std::int64_t> ends;
  const auto& slices = program.parameters.slices;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].group != ParameterGroup::weights) { continue; }
    if (!ends.empty()) { ends.back() = slices[i].first; }
    ends.push_back(program.parameters.weights_count);
  }
  const Element element = program.at(program.handles.weights.gradient).element;
  buckets_ = plan_buckets(ends, settings_.bucket_bytes / bytes_of(element, settings_.numeric));
}

UnitState StepBuilder::begin_unit(const Unit& unit, const Source& in) {
  const std::int64_t size = unit.convolution.out_size();
  UnitState state;
  state.unit = &unit;
  state.first_parameter = 3 * next_unit_;
  state.in = in;
  state.shape = {settings_.batch * size * size, unit.convolution.out_channels};
  state.y = tensors_.activation(unit.convolution.name + ".y", state.shape);
  state.norm = program_.handles.norms[next_unit_];
  ++next_unit_;
  return state;
}

UnitState StepBuilder::forward_convolution(const Unit& unit, const Source& in, bool sums_in_graph,
                                           bool factors16) {
  UnitState state = begin_unit(unit, in);
  const std::string& name = unit.convolution.name;
  const std::int64_t room = (sums_in_graph ? 1LL : most_partial_blocks) * state.shape.channels;
  const Ref first = tensors_.step(name + ".sum", Element::fp32, room);
  const Ref second = tensors_.step(name + ".square_sum", Element::fp32, room);
  GraphKind kind = sums_in_graph ? GraphKind::convolution_statistics : GraphKind::convolution;
  if (in.is_normalized_on_reading()) { kind = GraphKind::norm_convolution_statistics; }
  RunGraph run{spec(kind, state),
               {{TensorId::x, in.values},
                {TensorId::w, tensors_.parameter(state.first_parameter)},
                {TensorId::y, state.y}}};
  if (in.is_normalized_on_reading()) {
    run.tensors.insert(run.tensors.end(), {{TensorId::scale, in.scale16}, {TensorId::shift, in.shift16}});
  }
  if (sums_in_graph) {
    run.tensors.insert(run.tensors.end(), {{TensorId::sum, first}, {TensorId::square_sum, second}});
  }
  emit(name + " forward", std::move(run));
  if (!sums_in_graph) { emit(unit.norm.name + " sums", NormSums{state.shape, state.y, first, second}); }
  if (factors16) {
    state.out = {state.y,
                 tensors_.step(unit.norm.name + ".scale16", Element::activation, state.shape.channels),
                 tensors_.step(unit.norm.name + ".shift16", Element::activation, state.shape.channels)};
  }
  const Ref origin = sums_in_graph ? no_tensor : state.y;
  emit(unit.norm.name + " statistics",
       NormFinalize{state.shape, origin, first, second, state.norm, state.out.scale16, state.out.shift16});
  return state;
}

void StepBuilder::forward_apply(UnitState& unit) {
  const std::string& name = unit.unit->norm.name;
  unit.out = {tensors_.activation(name + ".out", unit.shape)};
  unit.mask = tensors_.step(name + ".mask", Element::byte, unit.shape.rows * unit.shape.channels / 8);
  emit(name + " apply", NormApply{unit.shape, unit.y, unit.norm, no_tensor, {}, unit.out.values, unit.mask});
}

BlockState StepBuilder::forward_block(const Block& block, Ref in) {
  BlockState state;
  const bool sums_in_graph = fuses(Fusion::statistics);
  Source source{in};
  for (std::size_t i = 0; i < block.units.size(); ++i) {
    const bool inner = i + 1 < block.units.size();
    const bool next_reads_norm = inner && fuses(Fusion::full);
    state.units.push_back(forward_convolution(block.units[i], source, sums_in_graph, next_reads_norm));
    if (inner && !next_reads_norm) { forward_apply(state.units.back()); }
    source = state.units.back().out;
  }
  const UnitState& last = state.units.back();
  Ref shortcut = in;
  NormRefs shortcut_norm;
  if (block.shortcut) {
    state.shortcut.push_back(forward_convolution(*block.shortcut, {in}, sums_in_graph, false));
    shortcut = state.shortcut[0].y;
    shortcut_norm = state.shortcut[0].norm;
  }
  const std::string& name = last.unit->norm.name;
  state.out = tensors_.activation(name + ".out", last.shape);
  state.mask = tensors_.step(name + ".mask", Element::byte, last.shape.rows * last.shape.channels / 8);
  emit(name + " apply",
       NormApply{last.shape, last.y, last.norm, shortcut, shortcut_norm, state.out, state.mask});
  return state;
}

Ref StepBuilder::forward_blocks() {
  const Convolution& stem = model_.stem.convolution;
  stem_ = forward_convolution(model_.stem, {program_.handles.images}, false, false);  // no engine sums a 7x7
  forward_apply(stem_);
  const PoolShape pool{settings_.batch, stem.out_channels, stem.out_size()};
  const RowShape pooled{static_cast<std::int64_t>(pool.batch) * pool.out_size() * pool.out_size(),
                        pool.channels};
  Ref in = tensors_.activation("maxpool.out", pooled);
  pool_position_ = tensors_.step("maxpool.position", Element::byte, pooled.rows * pooled.channels);
  emit("maxpool forward", MaxPool{pool, stem_.out.values, in, pool_position_});
  for (const Block& block : model_.blocks) {
    blocks_.push_back(forward_block(block, in));
    in = blocks_.back().out;
  }
  return in;
}

Ref StepBuilder::head(Ref in) {
  const int batch = settings_.batch;
  const int positions = model_.final_size * model_.final_size;
  const std::size_t weight = 3 * next_unit_;
  const auto run = [&](const char* name, GraphKind kind, std::vector<std::pair<TensorId, Ref>> tensors) {
    emit(name, RunGraph{linear_graph(kind, settings_.numeric, batch, model_), std::move(tensors)});
  };
  const Ref features = tensors_.activation("avgpool.out", {batch, model_.features});
  const Ref logits = tensors_.activation("logits", {batch, model_.classes});
  const Ref row_loss = tensors_.step("row_loss", Element::fp32, batch);
  emit("avgpool forward", AveragePool{batch, positions, model_.features, in, features});
  run("fc forward", GraphKind::convolution,
      {{TensorId::x, features}, {TensorId::w, tensors_.parameter(weight)}, {TensorId::y, logits}});
  emit("loss", SoftmaxCrossEntropy{batch, model_.classes, logits, tensors_.parameter(weight + 1),
                                   program_.handles.labels, program_.handles.loss_scale, row_loss, logits});
  emit("mean loss", MeanLoss{batch, row_loss, program_.handles.losses});
  loss_done_ = stamp(program_.micro_batch, When::last);

  const Ref d_features = tensors_.activation("d.avgpool.out", {batch, model_.features});
  const Ref dy = tensors_.activation("d." + program_.at(in).name,
                                     {static_cast<std::int64_t>(batch) * positions, model_.features});
  emit("fc bias gradient", ColumnSums{batch, model_.classes, logits, tensors_.gradient(weight + 1)});
  run("fc backward weights", GraphKind::backward_weights,
      {{TensorId::x, features}, {TensorId::dy, logits}, {TensorId::dw, tensors_.gradient(weight)}});
  weights_gradient_done();
  run("fc backward data", GraphKind::backward_data,
      {{TensorId::dy, logits}, {TensorId::w, tensors_.parameter(weight)}, {TensorId::dx, d_features}});
  emit("avgpool backward", AveragePoolBackward{batch, positions, model_.features, d_features, dy});
  return dy;
}

void StepBuilder::backward_norm(const UnitState& unit, Ref dy, Ref mask, Ref dx, Ref masked) {
  const std::string& name = unit.unit->norm.name;
  const std::int64_t room = static_cast<std::int64_t>(most_partial_blocks) * unit.shape.channels;
  const Ref first = tensors_.step("d." + name + ".sum", Element::fp32, room);
  const Ref second = tensors_.step("d." + name + ".product_sum", Element::fp32, room);
  const Ref factors = tensors_.step("d." + name + ".factors", Element::backward_factors, unit.shape.channels);
  const Ref gamma_grad = tensors_.gradient(unit.first_parameter + 1);
  const Ref beta_grad = tensors_.gradient(unit.first_parameter + 2);
  emit(name + " backward sums", NormBackwardSums{unit.shape, dy, mask, unit.y, unit.norm, first, second});
  emit(name + " backward statistics",
       NormBackwardFinalize{unit.shape, first, second, false, unit.norm, gamma_grad, beta_grad, factors});
  emit(name + " backward apply", NormBackwardApply{unit.shape, dy, mask, unit.y, factors, dx, masked});
}

void StepBuilder::backward_weights(const UnitState& unit, Ref dy) {
  const bool reads_norm = unit.in.is_normalized_on_reading();
  RunGraph run{spec(reads_norm ? GraphKind::norm_backward_weights : GraphKind::backward_weights, unit),
               {{TensorId::x, unit.in.values},
                {TensorId::dy, dy},
                {TensorId::dw, tensors_.gradient(unit.first_parameter)}}};
  if (reads_norm) {
    run.tensors.insert(run.tensors.end(),
                       {{TensorId::scale, unit.in.scale16}, {TensorId::shift, unit.in.shift16}});
  }
  emit(unit.unit->convolution.name + " backward weights", std::move(run));
  weights_gradient_done();
}

Ref StepBuilder::backward_data(const UnitState& unit, Ref dy, Ref in_for_size) {
  const ProgramTensor& in = program_.at(in_for_size);
  const Ref dx = tensors_.step("d." + unit.unit->convolution.name + ".in", in.element, in.count);
  emit(
      unit.unit->convolution.name + " backward data",
      RunGraph{
          spec(GraphKind::backward_data, unit),
          {{TensorId::dy, dy}, {TensorId::w, tensors_.parameter(unit.first_parameter)}, {TensorId::dx, dx}}});
  return dx;
}

Ref StepBuilder::backward_data_add(const UnitState& unit, Ref dy, Ref other) {
  if (!fuses(Fusion::addition)) {
    const Ref dx = backward_data(unit, dy, other);
    emit(unit.unit->convolution.name + " add shortcut", Add{program_.at(dx).count, dx, other, dx});
    return dx;
  }
  const ProgramTensor& like = program_.at(other);
  const Ref dx = tensors_.step("d." + unit.unit->convolution.name + ".in", like.element, like.count);
  emit(unit.unit->convolution.name + " backward data",
       RunGraph{spec(GraphKind::backward_data_add, unit),
                {{TensorId::dy, dy},
                 {TensorId::w, tensors_.parameter(unit.first_parameter)},
                 {TensorId::other, other},
                 {TensorId::dx, dx}}});
  return dx;
}

/// The graph gives the norm's two sums; its factors of the next gradient are made from them by our kernel, in
/// double, so the ones that the graph offers are not read.
Ref StepBuilder::backward_data_norm(const UnitState& unit, const UnitState& previous, Ref dy) {
  const std::string& name = previous.unit->norm.name;
  const int channels = previous.shape.channels;
  const auto vector = [&](const char* what) {
    return tensors_.step("d." + name + what, Element::fp32, channels);
  };
  const Ref dz = tensors_.activation("d." + unit.unit->convolution.name + ".in", previous.shape);
  const Ref product_sum = vector(".product_sum"), sum = vector(".sum");
  const Ref factors = tensors_.step("d." + name + ".factors", Element::backward_factors, channels);
  const NormRefs& norm = previous.norm;
  emit(unit.unit->convolution.name + " backward data",
       RunGraph{spec(GraphKind::backward_data_norm, unit),
                {{TensorId::dy, dy},
                 {TensorId::w, tensors_.parameter(unit.first_parameter)},
                 {TensorId::x, previous.y},
                 {TensorId::mean, norm.mean},
                 {TensorId::inverse_std, norm.inverse_std},
                 {TensorId::scale, norm.gamma},
                 {TensorId::shift, norm.beta},
                 {TensorId::dx, dz},
                 {TensorId::scale_grad, product_sum},
                 {TensorId::shift_grad, sum},
                 {TensorId::factor_dy, vector(".unused_dy")},
                 {TensorId::factor_x, vector(".unused_x")},
                 {TensorId::constant, vector(".unused_constant")}}});
  emit(name + " backward statistics",
       NormBackwardFinalize{previous.shape, sum, product_sum, true, norm,
                            tensors_.gradient(previous.first_parameter + 1),
                            tensors_.gradient(previous.first_parameter + 2), factors});
  emit(name + " backward apply",
       NormBackwardApply{previous.shape, dz, no_tensor, previous.y, factors, dz, no_tensor});
  return dz;
}

Ref StepBuilder::backward_to_previous(const UnitState& unit, const UnitState& previous, Ref dy) {
  if (unit.in.is_normalized_on_reading()) { return backward_data_norm(unit, previous, dy); }
  const Ref dx = backward_data(unit, dy, previous.y);
  backward_norm(previous, dx, previous.mask, dx, no_tensor);
  return dx;
}

Ref StepBuilder::backward_block(const BlockState& block, Ref dy) {
  const std::vector<UnitState>& units = block.units;
  Ref side = no_tensor;  // the gradient through the shortcut
  if (block.shortcut.empty()) {
    side = tensors_.activation("d." + units[0].unit->convolution.name + ".shortcut", units.back().shape);
    backward_norm(units.back(), dy, block.mask, dy, side);
  } else {
    const UnitState& shortcut = block.shortcut[0];
    const Ref d_shortcut = tensors_.activation("d." + shortcut.unit->convolution.name + ".y", shortcut.shape);
    backward_norm(shortcut, dy, block.mask, d_shortcut, no_tensor);
    backward_weights(shortcut, d_shortcut);
    side = backward_data(shortcut, d_shortcut, shortcut.in.values);
    backward_norm(units.back(), dy, block.mask, dy, no_tensor);
  }
  for (std::size_t i = units.size() - 1; i > 0; --i) {
    backward_weights(units[i], dy);
    dy = backward_to_previous(units[i], units[i - 1], dy);
  }
  backward_weights(units[0], dy);
  return backward_data_add(units[0], dy, side);
}

void StepBuilder::backward_stem(Ref dy) {
  const Ref d_stem = tensors_.activation("d." + model_.stem.norm.name + ".out", stem_.shape);
  const PoolShape pool{settings_.batch, stem_.shape.channels, model_.stem.convolution.out_size()};
  emit("maxpool backward", MaxPoolBackward{pool, dy, pool_position_, d_stem});
  backward_norm(stem_, d_stem, stem_.mask, d_stem, no_tensor);
  backward_weights(stem_, d_stem);
}

void StepBuilder::weights_gradient_done() {
  if (weights_done_++ != buckets_[next_bucket_].last) { return; }
  finish_gradients(ParameterGroup::weights, buckets_[next_bucket_],
                   "weights " + std::to_string(next_bucket_));
  ++next_bucket_;
}

void StepBuilder::finish_gradients(ParameterGroup group, const Bucket& range, const std::string& name) {
  const StepHandles::Block& block =
      group == ParameterGroup::weights ? program_.handles.weights : program_.handles.vectors;
  const Ref values = tensors_.micro_batch_gradients(group);
  if (settings_.accumulate_steps > 1) {
    emit("widen " + name, Widen{range.first, range.count, values, block.gradient}, When::first);
    emit("accumulate " + name, Accumulate{range.first, range.count, values, block.gradient}, When::later);
  }
  if (!settings_.all_reduce) { return; }
  AllReduce reduce{range.first, range.count, block.gradient, {0, no_tensor}, {0, no_tensor}};
  if (settings_.stamps) {
    reduce.begin = {next_stamp(), program_.handles.stamps};
    reduce.end = {next_stamp(), program_.handles.stamps};
    program_.spans.push_back({"all-reduce " + name, true, reduce.begin.index, reduce.end.index});
  }
  emit("all-reduce " + name, reduce, When::last);
}

void StepBuilder::update() {
  const StepHandles& handles = program_.handles;
  const auto emit_update = [&](const std::string& name, Action action) {
    program_.update.push_back({name, When::every, std::move(action)});
  };
  program_.exposed_begin = stamp(program_.micro_batch, When::last);
  if (settings_.all_reduce) { emit_update("await all-reduce", AwaitAllReduce{}); }
  program_.exposed_end = stamp(program_.update, When::every);
  const std::array<const StepHandles::Block*, 2> blocks{&handles.weights, &handles.vectors};
  const bool scaled = settings_.numeric == Numeric::fp16;  // the others have fp32's range
  for (const StepHandles::Block* block : blocks) {
    const std::int64_t count = program_.at(block->masters).count;
    if (scaled) { emit_update("find overflow", FindOverflow{count, block->gradient, handles.loss_scale}); }
  }
  for (const StepHandles::Block* block : blocks) {
    const std::int64_t count = program_.at(block->masters).count;
    emit_update("update", Sgd{count, block->gradient, block->masters, block->velocity, block->copy,
                              handles.rule, handles.loss_scale});
  }
  if (scaled) { emit_update("advance loss scale", AdvanceLossScale{handles.loss_scale}); }
}

int StepBuilder::stamp(std::vector<Operation>& operations, When when) {
  if (!settings_.stamps) { return 0; }
  operations.push_back({"stamp", when, Stamp{next_stamp(), program_.handles.stamps}});
  return stamps_ - 1;
}

void StepBuilder::build() {
  if (settings_.stamps) {
    // At the begin of the step, of its last micro-batch and of its backward pass, three at its end.
    const std::size_t reductions = settings_.all_reduce ? buckets_.size() + 1 : 0;
    program_.handles.stamps = tensors_.add_stamps(static_cast<std::int64_t>(6 + 2 * reductions));
  }
  const int begin = stamp(program_.micro_batch, When::first);
  const int last_begin = stamp(program_.micro_batch, When::last);
  Ref dy = head(forward_blocks());
  for (std::size_t b = blocks_.size(); b-- > 0;) { dy = backward_block(blocks_[b], dy); }
  backward_stem(dy);
  finish_gradients(ParameterGroup::vectors, {0, program_.parameters.vectors_count, 0}, "vectors");
  update();
  const int end = stamp(program_.update, When::every);
  if (!settings_.stamps) { return; }
  if (settings_.accumulate_steps > 1) {
    program_.spans.push_back({"earlier micro-batches", false, begin, last_begin});
  }
  program_.spans.push_back({"forward", false, last_begin, loss_done_});
  program_.spans.push_back({"backward", false, loss_done_, program_.exposed_begin});
  program_.spans.push_back({"update", false, program_.exposed_end, end});
}

}  // namespace

StepProgram build_step(const Model& model, const StepSettings& settings) {
  StepProgram program;
  program.settings = settings;
  StepBuilder(model, program).build();
  return program;
}

std::vector<GraphSpec> graphs_of_step(const Model& model, int batch, Numeric numeric, Fusion fusion) {
  StepSettings settings;
  settings.batch = batch;
  settings.numeric = numeric;
  settings.fusion = fusion;
  return graphs_of(build_step(model, settings));
}

}  // namespace virtrain::resnet50::cuda
