#include "workloads/resnet50/cuda/writing/forward_pass.h"

namespace virtrain::resnet50::cuda {

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

void ForwardPass::apply(UnitState& unit, const Sites& sites) {
  const std::string& name = unit.unit->norm.name;
  unit.out = {step_.tensors().activation(name + ".out", unit.shape)};
  unit.mask = step_.tensors().step(name + ".mask", Element::byte, unit.shape.rows * unit.shape.channels / 8);
  step_.emit(name + " apply",
             NormApply{unit.shape, unit.y, unit.norm, no_tensor, {}, unit.out.values, unit.mask}, sites);
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
    if (inner && !next_reads_norm) {
      apply(state.units.back(), {fusion_site(FusionKind::norm, block.units[i + 1].convolution)});
    }
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

}  // namespace virtrain::resnet50::cuda
