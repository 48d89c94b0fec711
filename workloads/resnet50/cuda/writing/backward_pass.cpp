#include "workloads/resnet50/cuda/writing/backward_pass.h"

namespace virtrain::resnet50::cuda {
namespace {

Sites sites_of(const UnitState& unit, std::initializer_list<FusionKind> kinds) {
  Sites sites;
  for (const FusionKind kind : kinds) { sites.push_back(fusion_site(kind, unit.unit->convolution)); }
  return sites;
}

}  // namespace

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
void BackwardPass::tail_norm(const UnitState& unit, const Gradient& gradient, const NormGradientRefs& known,
                             Ref mask, Ref dx, Ref masked) {
  if (!gradient.has_factors) {
    return norm(unit, gradient.values, gradient.is_masked ? no_tensor : mask, dx, masked, gradient.sites);
  }
  step_.emit(unit.unit->norm.name + " backward apply",
             NormBackwardApply{unit.shape, gradient.values, no_tensor, unit.y, known.factors, dx, no_tensor},
             gradient.sites);
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

/// The graph gives the norm's two sums; its factors of the next gradient are made from them by our kernel, in
/// double, so the ones that the graph offers are not read.
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
  const NormGradientRefs out = gradients_of(previous);
  step_.emit(name + " backward statistics", NormBackwardFinalize{previous.shape, sum, product_sum, norm, out},
             sites);
  step_.emit(name + " backward apply",
             NormBackwardApply{previous.shape, dz, no_tensor, previous.y, out.factors, dz, no_tensor}, sites);
  return dz;
}

Ref BackwardPass::to_previous(const UnitState& unit, const UnitState& previous, Ref dy, const Sites& sites) {
  if (unit.in.is_normalized_on_reading()) { return data_norm(unit, previous, dy, sites); }
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
  gradient.is_masked = gradient.has_factors = true;
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
    return std::pair(refs[6], refs[5]);
  };
  const UnitState& last = before.units.back();
  const auto sums = add_norm(last, {TensorId::x, TensorId::mean, TensorId::inverse_std, TensorId::scale,
                                    TensorId::shift, TensorId::scale_grad, TensorId::shift_grad,
                                    TensorId::factor_dy, TensorId::factor_x, TensorId::constant});
  std::pair<Ref, Ref> shortcut_sums;
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
  Sites sites = gradient.sites;
  step_.emit("d." + last.unit->norm.name + " from the next block", run, sites);
  const auto finalize = [&](const UnitState& unit, const std::pair<Ref, Ref>& of) {
    const NormGradientRefs out = gradients_of(unit);
    step_.emit(unit.unit->norm.name + " backward statistics",
               NormBackwardFinalize{unit.shape, of.first, of.second, unit.norm, out}, sites);
    return out;
  };
  gradient.norm = finalize(last, sums);
  if (!before.shortcut.empty()) { gradient.shortcut_norm = finalize(before.shortcut[0], shortcut_sums); }
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
    const Sites sites = sites_of(units[i], {FusionKind::norm});
    weights(units[i], inner, sites);
    inner = to_previous(units[i], units[i - 1], inner, sites);
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

}  // namespace virtrain::resnet50::cuda
