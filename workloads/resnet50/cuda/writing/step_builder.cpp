#include "workloads/resnet50/cuda/writing/step_builder.h"

#include <map>

#include "workloads/resnet50/cuda/program/step_program.h"
#include "workloads/resnet50/cuda/writing/step_emitter.h"

namespace virtrain::resnet50::cuda {
namespace {

/// Writes the forward pass, up to the output of the last block: convolutions, and of their normalizations
/// what the level of fusion leaves to our kernels.
class ForwardPass {
 public:
  explicit ForwardPass(StepEmitter& step) : step_(step) {}
  ForwardState write();

 private:
  UnitState begin_unit(const Unit& unit, const Source& in);
  /// The convolution and the statistics of its output. `factors16`: its reader normalizes it.
  UnitState convolution(const Unit& unit, const Source& in, bool sums_in_graph, bool factors16,
                        const Sites& sites);
  /// Normalizes what a unit has written for the next one of its block.
  void apply(UnitState& unit, const Unit& next);
  /// `next`: the block behind it, or null.
  BlockState block(const Block& block, Ref in, const Block* next);
  void stem(ForwardState& state);
  bool fuses(FusionKind kind, const Unit& unit) const {
    return step_.settings().fuses(kind, unit.convolution);
  }

  StepEmitter& step_;
  std::size_t next_unit_ = 0;
};

UnitState ForwardPass::begin_unit(const Unit& unit, const Source& in) {
  const std::int64_t size = unit.convolution.out_size();
  UnitState state;
  state.unit = &unit;
  state.first_parameter = 3 * next_unit_;
  state.in = in;
  state.shape = {step_.settings().batch * size * size, unit.convolution.out_channels};
  state.y = step_.tensors().activation(unit.convolution.name + ".y", state.shape);
  state.norm = step_.handles().norms[next_unit_];
  ++next_unit_;
  return state;
}

UnitState ForwardPass::convolution(const Unit& unit, const Source& in, bool sums_in_graph, bool factors16,
                                   const Sites& sites) {
  UnitState state = begin_unit(unit, in);
  StepTensors& tensors = step_.tensors();
  const std::string& name = unit.convolution.name;
  if (factors16) {
    const auto factor = [&](const char* what) {
      return tensors.step(unit.norm.name + what, Element::activation, state.shape.channels);
    };
    state.out = {state.y, factor(".scale16"), factor(".shift16")};
  }
  GraphKind kind = sums_in_graph ? GraphKind::convolution_statistics : GraphKind::convolution;
  if (in.is_normalized_on_reading()) { kind = GraphKind::norm_convolution_statistics; }
  RunGraph run{step_.spec(kind, state),
               {{TensorId::x, in.values},
                {TensorId::w, tensors.parameter(state.first_parameter)},
                {TensorId::y, state.y}}};
  if (in.is_normalized_on_reading()) {
    run.tensors.insert(run.tensors.end(), {{TensorId::scale, in.scale16}, {TensorId::shift, in.shift16}});
  }
  const Ref scale16 = state.out.scale16, shift16 = state.out.shift16;
  if (!sums_in_graph) {
    step_.emit(name + " forward", run, sites);
    step_.emit(unit.norm.name + " sums",
               NormSums{state.shape, state.y, state.norm, tensors.partial(), scale16, shift16}, sites);
    return state;
  }
  const Ref sum = tensors.step(name + ".sum", Element::fp32, state.shape.channels);
  const Ref square_sum = tensors.step(name + ".square_sum", Element::fp32, state.shape.channels);
  run.tensors.insert(run.tensors.end(), {{TensorId::sum, sum}, {TensorId::square_sum, square_sum}});
  step_.emit(name + " forward", run, sites);
  step_.emit(unit.norm.name + " statistics",
             NormFinalize{state.shape, sum, square_sum, state.norm, scale16, shift16}, sites);
  return state;
}

void ForwardPass::apply(UnitState& unit, const Unit& next) {
  const std::string& name = unit.unit->norm.name;
  unit.out = {step_.tensors().activation(name + ".out", unit.shape)};
  if (!fuses(FusionKind::norm_gradient, next)) {
    unit.mask =
        step_.tensors().step(name + ".mask", Element::byte, unit.shape.rows * unit.shape.channels / 8);
  }
  step_.emit(name + " apply",
             NormApply{unit.shape, unit.y, unit.norm, no_tensor, {}, unit.out.values, unit.mask},
             {fusion_site(FusionKind::norm, next.convolution),
              fusion_site(FusionKind::norm_gradient, next.convolution)});
}

BlockState ForwardPass::block(const Block& block, Ref in, const Block* next) {
  BlockState state;
  state.in = in;
  Source source{in};
  for (std::size_t i = 0; i < block.units.size(); ++i) {
    const Unit& unit = block.units[i];
    Sites sites{fusion_site(FusionKind::statistics, unit.convolution)};
    if (i > 0) { sites.push_back(fusion_site(FusionKind::norm, unit.convolution)); }
    const bool inner = i + 1 < block.units.size();
    const bool next_reads_norm = inner && fuses(FusionKind::norm, block.units[i + 1]);
    const bool sums_in_graph = source.is_normalized_on_reading() || fuses(FusionKind::statistics, unit);
    state.units.push_back(convolution(unit, source, sums_in_graph, next_reads_norm, sites));
    if (inner && !next_reads_norm) { apply(state.units.back(), block.units[i + 1]); }
    source = state.units.back().out;
  }
  const UnitState& last = state.units.back();
  Ref shortcut = in;
  NormRefs shortcut_norm;
  if (block.shortcut) {
    state.shortcut.push_back(convolution(*block.shortcut, {in},
                                         fuses(FusionKind::statistics, *block.shortcut), false,
                                         {fusion_site(FusionKind::statistics, block.shortcut->convolution)}));
    shortcut = state.shortcut[0].y;
    shortcut_norm = state.shortcut[0].norm;
  }
  const std::string& name = last.unit->norm.name;
  state.out = step_.tensors().activation(name + ".out", last.shape);
  // A backward pass that computes the block's end again needs no mask.
  if (next == nullptr || !fuses(FusionKind::tail, next->units[0])) {
    state.mask =
        step_.tensors().step(name + ".mask", Element::byte, last.shape.rows * last.shape.channels / 8);
  }
  step_.emit(name + " apply",
             NormApply{last.shape, last.y, last.norm, shortcut, shortcut_norm, state.out, state.mask},
             next == nullptr ? Sites{} : Sites{fusion_site(FusionKind::tail, next->units[0].convolution)});
  return state;
}

/// No engine sums a 7x7 convolution's output; its norm, ReLU and max-pool are one pass.
void ForwardPass::stem(ForwardState& state) {
  const Unit& unit = step_.model().stem;
  state.stem = convolution(unit, {step_.handles().images}, false, false, {});
  state.pool = {step_.settings().batch, unit.convolution.out_channels, unit.convolution.out_size()};
  const std::int64_t out = state.pool.out_size();
  const RowShape pooled{state.pool.batch * out * out, state.pool.channels};
  state.out = step_.tensors().activation("maxpool.out", pooled);
  state.pool_position =
      step_.tensors().step("maxpool.position", Element::byte, pooled.rows * pooled.channels);
  step_.emit("maxpool forward",
             NormMaxPool{state.pool, state.stem.y, state.stem.norm, state.out, state.pool_position});
}

ForwardState ForwardPass::write() {
  ForwardState state;
  stem(state);
  const std::vector<Block>& blocks = step_.model().blocks;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    state.blocks.push_back(block(blocks[b], state.out, b + 1 < blocks.size() ? &blocks[b + 1] : nullptr));
    state.out = state.blocks.back().out;
  }
  return state;
}

/// Writes loss and backward pass. What comes out of a block's first convolution is the gradient of the output
/// of the block before: depending on the level of fusion its ReLU has been passed, and the sums of its
/// normalizations are there.
class BackwardPass {
 public:
  BackwardPass(StepEmitter& step, const ForwardState& forward) : step_(step), forward_(forward) {}
  /// Returns the stamp behind the loss.
  int write();

 private:
  /// Sums that a graph has written of a norm's gradient, and of that times the normalized input.
  struct NormSumRefs {
    Ref sum = no_tensor, product_sum = no_tensor;
  };
  /// Gradient of a block's output.
  struct Gradient {
    Ref values = no_tensor;
    bool is_masked = false;  ///< the ReLU has been passed
    bool has_sums = false;   ///< then also: those of the block's norms are known
    NormSumRefs norm, shortcut_norm;
    Sites sites;  ///< on which all this depends
  };

  /// Loss, and back to the gradient of the last block's output.
  Gradient head();
  NormGradientRefs gradients_of(const UnitState& unit);
  /// From the gradient of the norm's output to that of its input.
  void norm(const UnitState& unit, Ref dy, Ref mask, Ref dx, Ref masked, const Sites& sites);
  void tail_norm(const UnitState& unit, const Gradient& gradient, const NormSumRefs& known, Ref mask, Ref dx,
                 Ref masked);
  void apply_sums(const UnitState& unit, Ref dy, const NormSumRefs& sums, Ref dx, const Sites& sites);
  void weights(const UnitState& unit, Ref dy, const Sites& sites);
  Ref data(const UnitState& unit, Ref dy, Ref in_for_size, const Sites& sites);
  /// Through the convolution and the norm before it.
  Ref to_previous(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites);
  Ref data_norm(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites);
  /// Through a block's first convolution, where its two paths meet. `before` is null for the first block.
  Gradient data_add(const UnitState& unit, Ref dy, Ref other, const BlockState* before);
  void data_tail(RunGraph run, const BlockState& before, Gradient& gradient);
  Gradient block(const BlockState& block, const Gradient& dy, const BlockState* before);
  void stem(Ref dy);
  Ref vector(const std::string& name, int channels) {
    return step_.tensors().step(name, Element::fp32, channels);
  }
  bool fuses(FusionKind kind, const UnitState& unit) const {
    return step_.settings().fuses(kind, unit.unit->convolution);
  }

  StepEmitter& step_;
  const ForwardState& forward_;
  int loss_done_ = 0;  ///< stamp
};

Sites sites_of(const UnitState& unit, std::initializer_list<FusionKind> kinds) {
  Sites sites;
  for (const FusionKind kind : kinds) { sites.push_back(fusion_site(kind, unit.unit->convolution)); }
  return sites;
}

BackwardPass::Gradient BackwardPass::head() {
  const Model& model = step_.model();
  const StepSettings& settings = step_.settings();
  StepTensors& tensors = step_.tensors();
  const int batch = settings.batch, positions = model.final_size * model.final_size;
  const std::size_t weight = parameters(model).size() - 2;
  const auto run = [&](const char* name, GraphKind kind, std::vector<std::pair<TensorId, Ref>> all) {
    step_.emit(name, RunGraph{linear_graph(kind, settings.numeric, batch, model), std::move(all)});
  };
  const Ref features = tensors.activation("avgpool.out", {batch, model.features});
  const Ref logits = tensors.activation("logits", {batch, model.classes});
  const Ref row_loss = tensors.step("row_loss", Element::fp32, batch);
  step_.emit("avgpool forward", AveragePool{batch, positions, model.features, forward_.out, features});
  run("fc forward", GraphKind::convolution,
      {{TensorId::x, features}, {TensorId::w, tensors.parameter(weight)}, {TensorId::y, logits}});
  step_.emit("loss",
             SoftmaxCrossEntropy{batch, model.classes, settings.ranks, logits, tensors.parameter(weight + 1),
                                 step_.handles().labels, step_.handles().loss_scale, row_loss, logits});
  step_.emit("mean loss", MeanLoss{batch, row_loss, step_.handles().losses});
  loss_done_ = step_.stamp(When::last);

  const Ref d_features = tensors.activation("d.avgpool.out", {batch, model.features});
  const Ref dy = tensors.activation("d." + step_.at(forward_.out).name,
                                    {static_cast<std::int64_t>(batch) * positions, model.features});
  step_.emit("fc bias gradient", ColumnSums{batch, model.classes, logits, tensors.gradient(weight + 1)});
  run("fc backward weights", GraphKind::backward_weights,
      {{TensorId::x, features}, {TensorId::dy, logits}, {TensorId::dw, tensors.gradient(weight)}});
  step_.weights_gradient_done();
  run("fc backward data", GraphKind::backward_data,
      {{TensorId::dy, logits}, {TensorId::w, tensors.parameter(weight)}, {TensorId::dx, d_features}});
  step_.emit("avgpool backward", AveragePoolBackward{batch, positions, model.features, d_features, dy});
  Gradient gradient;
  gradient.values = dy;
  return gradient;
}

NormGradientRefs BackwardPass::gradients_of(const UnitState& unit) {
  return {step_.tensors().gradient(unit.first_parameter + 1),
          step_.tensors().gradient(unit.first_parameter + 2),
          step_.tensors().step("d." + unit.unit->norm.name + ".factors", Element::backward_factors,
                               unit.shape.channels)};
}

void BackwardPass::norm(const UnitState& unit, Ref dy, Ref mask, Ref dx, Ref masked, const Sites& sites) {
  const std::string& name = unit.unit->norm.name;
  const NormGradientRefs out = gradients_of(unit);
  step_.emit(name + " backward sums",
             NormBackwardSums{unit.shape, dy, mask, unit.y, unit.norm, step_.tensors().partial(), out},
             sites);
  step_.emit(name + " backward apply",
             NormBackwardApply{unit.shape, dy, mask, unit.y, out.factors, dx, masked}, sites);
}

/// Writes the backward pass of one of the norms at a block's end.
void BackwardPass::tail_norm(const UnitState& unit, const Gradient& gradient, const NormSumRefs& known,
                             Ref mask, Ref dx, Ref masked) {
  if (!gradient.has_sums) {
    return norm(unit, gradient.values, gradient.is_masked ? no_tensor : mask, dx, masked, gradient.sites);
  }
  apply_sums(unit, gradient.values, known, dx, gradient.sites);
}

void BackwardPass::apply_sums(const UnitState& unit, Ref dy, const NormSumRefs& sums, Ref dx,
                              const Sites& sites) {
  step_.emit(unit.unit->norm.name + " backward apply",
             NormBackwardApplySums{unit.shape, dy, unit.y, unit.norm, sums.sum, sums.product_sum,
                                   step_.tensors().gradient(unit.first_parameter + 1),
                                   step_.tensors().gradient(unit.first_parameter + 2), dx},
             sites);
}

void BackwardPass::weights(const UnitState& unit, Ref dy, const Sites& sites) {
  const bool reads_norm = unit.in.is_normalized_on_reading();
  RunGraph run{step_.spec(reads_norm ? GraphKind::norm_backward_weights : GraphKind::backward_weights, unit),
               {{TensorId::x, unit.in.values},
                {TensorId::dy, dy},
                {TensorId::dw, step_.tensors().gradient(unit.first_parameter)}}};
  if (reads_norm) {
    run.tensors.insert(run.tensors.end(),
                       {{TensorId::scale, unit.in.scale16}, {TensorId::shift, unit.in.shift16}});
  }
  step_.emit(unit.unit->convolution.name + " backward weights", run, sites);
  step_.weights_gradient_done();
}

Ref BackwardPass::data(const UnitState& unit, Ref dy, Ref in_for_size, const Sites& sites) {
  const ProgramTensor in = step_.at(in_for_size);
  const Ref dx = step_.tensors().step("d." + unit.unit->convolution.name + ".in", in.element, in.count);
  step_.emit(unit.unit->convolution.name + " backward data",
             RunGraph{step_.spec(GraphKind::backward_data, unit),
                      {{TensorId::dy, dy},
                       {TensorId::w, step_.tensors().parameter(unit.first_parameter)},
                       {TensorId::dx, dx}}},
             sites);
  return dx;
}

/// The graph gives the norm's two sums; its factors of the next gradient are made from them by our kernel, so
/// the ones that the graph offers are not read.
Ref BackwardPass::data_norm(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites) {
  const std::string& name = previous.unit->norm.name;
  const int channels = previous.shape.channels;
  const Ref dz = step_.tensors().activation("d." + unit.unit->convolution.name + ".in", previous.shape);
  const Ref product_sum = vector("d." + name + ".product_sum", channels);
  const Ref sum = vector("d." + name + ".sum", channels);
  const NormRefs& norm = previous.norm;
  step_.emit(unit.unit->convolution.name + " backward data",
             RunGraph{step_.spec(GraphKind::backward_data_norm, unit),
                      {{TensorId::dy, dy},
                       {TensorId::w, step_.tensors().parameter(unit.first_parameter)},
                       {TensorId::x, previous.y},
                       {TensorId::mean, norm.mean},
                       {TensorId::inverse_std, norm.inverse_std},
                       {TensorId::scale, norm.gamma},
                       {TensorId::shift, norm.beta},
                       {TensorId::dx, dz},
                       {TensorId::scale_grad, product_sum},
                       {TensorId::shift_grad, sum},
                       {TensorId::factor_dy, vector("d." + name + ".unused_dy", channels)},
                       {TensorId::factor_x, vector("d." + name + ".unused_x", channels)},
                       {TensorId::constant, vector("d." + name + ".unused_constant", channels)}}},
             sites);
  apply_sums(previous, dz, {sum, product_sum}, dz, sites);
  return dz;
}

Ref BackwardPass::to_previous(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites) {
  if (fuses(FusionKind::norm_gradient, unit)) { return data_norm(unit, previous, dy, sites); }
  const Ref dx = data(unit, dy, previous.y, sites);
  norm(previous, dx, previous.mask, dx, no_tensor, sites);
  return dx;
}

BackwardPass::Gradient BackwardPass::data_add(const UnitState& unit, Ref dy, Ref other,
                                              const BlockState* before) {
  Gradient gradient;
  Sites sites = sites_of(unit, {FusionKind::addition});
  if (before != nullptr) {
    gradient.sites = sites_of(unit, {FusionKind::mask, FusionKind::tail});
    sites.insert(sites.end(), gradient.sites.begin(), gradient.sites.end());
  }
  const std::string& name = unit.unit->convolution.name;
  const bool has_tail = before != nullptr && fuses(FusionKind::tail, unit);
  if (!has_tail && !fuses(FusionKind::addition, unit)) {
    gradient.values = data(unit, dy, other, sites);
    step_.emit(name + " add shortcut", Add{step_.at(other).count, gradient.values, other, gradient.values},
               sites);
    return gradient;
  }
  const ProgramTensor like = step_.at(other);
  gradient.values = step_.tensors().step("d." + name + ".in", like.element, like.count);
  RunGraph run{step_.spec(GraphKind::backward_data_add, unit),
               {{TensorId::dy, dy},
                {TensorId::w, step_.tensors().parameter(unit.first_parameter)},
                {TensorId::other, other},
                {TensorId::dx, gradient.values}}};
  if (has_tail) {
    data_tail(std::move(run), *before, gradient);
    return gradient;
  }
  if (before != nullptr && fuses(FusionKind::mask, unit)) {
    gradient.is_masked = true;
    run.spec.kind = GraphKind::backward_data_add_mask;
    run.tensors.emplace_back(TensorId::mask, before->mask);
  }
  step_.emit(name + " backward data", run, sites);
  return gradient;
}

/// The graph computes the end of the block before again, to know where its ReLU passed.
void BackwardPass::data_tail(RunGraph run, const BlockState& before, Gradient& gradient) {
  gradient.is_masked = gradient.has_sums = true;
  const auto add_norm = [&](const UnitState& unit, std::initializer_list<TensorId> ids) {
    const std::string name = "d." + unit.unit->norm.name;
    const int channels = unit.shape.channels;
    const std::vector<Ref> refs{unit.y,
                                unit.norm.mean,
                                unit.norm.inverse_std,
                                unit.norm.gamma,
                                unit.norm.beta,
                                vector(name + ".product_sum", channels),
                                vector(name + ".sum", channels),
                                vector(name + ".unused_dy", channels),
                                vector(name + ".unused_x", channels),
                                vector(name + ".unused_constant", channels)};
    for (std::size_t i = 0; i < refs.size(); ++i) { run.tensors.emplace_back(ids.begin()[i], refs[i]); }
    return NormSumRefs{refs[6], refs[5]};
  };
  const UnitState& last = before.units.back();
  const auto sums = add_norm(last, {TensorId::x, TensorId::mean, TensorId::inverse_std, TensorId::scale,
                                    TensorId::shift, TensorId::scale_grad, TensorId::shift_grad,
                                    TensorId::factor_dy, TensorId::factor_x, TensorId::constant});
  NormSumRefs shortcut_sums;
  if (before.shortcut.empty()) {
    run.spec.kind = GraphKind::backward_data_tail;
    run.tensors.emplace_back(TensorId::shortcut, before.in);
  } else {
    run.spec.kind = GraphKind::backward_data_tail_norm;
    shortcut_sums = add_norm(before.shortcut[0], {TensorId::shortcut, TensorId::shortcut_mean,
                                                  TensorId::shortcut_inverse_std, TensorId::shortcut_scale,
                                                  TensorId::shortcut_shift, TensorId::shortcut_scale_grad,
                                                  TensorId::shortcut_shift_grad, TensorId::shortcut_factor_dy,
                                                  TensorId::shortcut_factor_x, TensorId::shortcut_constant});
  }
  step_.emit("d." + last.unit->norm.name + " from the next block", run, gradient.sites);
  gradient.norm = sums;
  gradient.shortcut_norm = shortcut_sums;
}

BackwardPass::Gradient BackwardPass::block(const BlockState& block, const Gradient& dy,
                                           const BlockState* before) {
  const std::vector<UnitState>& units = block.units;
  StepTensors& tensors = step_.tensors();
  Ref side = no_tensor;  // the gradient through the shortcut
  Ref inner = dy.values;
  if (!block.shortcut.empty()) {
    const UnitState& shortcut = block.shortcut[0];
    const Ref d_shortcut = tensors.activation("d." + shortcut.unit->convolution.name + ".y", shortcut.shape);
    tail_norm(shortcut, dy, dy.shortcut_norm, block.mask, d_shortcut, no_tensor);
    weights(shortcut, d_shortcut, {});
    side = data(shortcut, d_shortcut, shortcut.in.values, {});
    tail_norm(units.back(), dy, dy.norm, block.mask, inner, no_tensor);
  } else if (dy.is_masked) {  // what comes in is the shortcut's gradient already
    side = dy.values;
    inner = tensors.activation("d." + units.back().unit->convolution.name + ".y", units.back().shape);
    tail_norm(units.back(), dy, dy.norm, block.mask, inner, no_tensor);
  } else {
    side = tensors.activation("d." + units[0].unit->convolution.name + ".shortcut", units.back().shape);
    tail_norm(units.back(), dy, dy.norm, block.mask, inner, side);
  }
  for (std::size_t i = units.size() - 1; i > 0; --i) {
    weights(units[i], inner, sites_of(units[i], {FusionKind::norm}));
    inner = to_previous(units[i], units[i - 1], inner, sites_of(units[i], {FusionKind::norm_gradient}));
  }
  weights(units[0], inner, {});
  return data_add(units[0], inner, side, before);
}

void BackwardPass::stem(Ref dy) {
  const UnitState& unit = forward_.stem;
  const std::string& name = unit.unit->norm.name;
  const Ref d_y = step_.tensors().activation("d." + unit.unit->convolution.name + ".y", unit.shape);
  const NormGradientRefs out = gradients_of(unit);
  step_.emit(name + " backward sums",
             PooledNormBackwardSums{forward_.pool, dy, forward_.pool_position, unit.y, unit.norm,
                                    step_.tensors().partial(), out});
  step_.emit(name + " backward apply",
             PooledNormBackwardApply{forward_.pool, dy, forward_.pool_position, unit.y, out.factors, d_y});
  weights(unit, d_y, {});
}

int BackwardPass::write() {
  Gradient dy = head();
  const std::vector<BlockState>& blocks = forward_.blocks;
  for (std::size_t b = blocks.size(); b-- > 0;) {
    dy = block(blocks[b], dy, b == 0 ? nullptr : &blocks[b - 1]);
  }
  stem(dy.values);
  step_.vectors_gradients_done();
  return loss_done_;
}

/// Gives each pass that can go either way the order opposite to that in which its largest input was touched
/// last. cuDNN's graphs are taken to go from the first element to the last.
void choose_sweeps(StepProgram& program) {
  std::map<Ref, Sweep> last;
  for (Operation& operation : program.micro_batch) {
    if (operation.sweeps) {
      const Operand* largest = nullptr;
      for (const Operand& operand : operation.operands) {
        if (operand.access == Access::write || !last.contains(operand.tensor)) { continue; }
        if (largest == nullptr || operand_bytes(program, operand) > operand_bytes(program, *largest)) {
          largest = &operand;
        }
      }
      const bool ascended = largest == nullptr || last.at(largest->tensor) == Sweep::ascending;
      operation.sweep = ascended ? Sweep::descending : Sweep::ascending;
    }
    for (const Operand& operand : operation.operands) { last[operand.tensor] = operation.sweep; }
  }
}

}  // namespace

StepProgram build_step(const Model& model, const StepSettings& settings) {
  StepProgram program;
  program.settings = settings;
  StepEmitter step(model, program);
  if (settings.stamps) { step.add_stamps(); }
  const int begin = step.stamp(When::first);
  const int last_begin = step.stamp(When::last);
  const ForwardState forward = ForwardPass(step).write();
  const int loss_done = BackwardPass(step, forward).write();
  step.update();
  const int end = step.final_stamp();
  choose_sweeps(program);
  if (!settings.stamps) { return program; }
  if (settings.accumulate_steps > 1) { step.add_span("earlier micro-batches", begin, last_begin); }
  step.add_span("forward", last_begin, loss_done);
  step.add_span("backward", loss_done, step.exposed_begin());
  step.add_span("update", step.exposed_end(), end);
  return program;
}

}  // namespace virtrain::resnet50::cuda
