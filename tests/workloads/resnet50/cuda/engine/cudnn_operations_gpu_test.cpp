#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/interpreter/operation_reference.h"
#include "tests/workloads/resnet50/cuda/kernels/kernel_tensors.h"
#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/peers/peers.h"
#include "workloads/resnet50/cuda/engine/cudnn_plan.h"
#include "workloads/resnet50/cuda/run/gpu.h"

// Each of cuDNN's operations alone, by each engine that the trainer may choose, against fp64. Needs a GPU.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;
namespace plain = virtrain::resnet50::cuda::plain;

namespace {

/// What one kind of graph has shown, over its shapes.
struct Tally {
  int shapes = 0, engines = 0, refused = 0;
  int lacking = 0;  ///< shapes without an engine, which the trainer leaves apart
  double worst = 0;
  int unequal = 0;         ///< engines whose activations or gradients differ from run to run
  double sums_differ = 0;  ///< by which sums over the rows differ from run to run, at most
};

/// All tensors of a graph on the GPU: the inputs, and where its outputs go, filled with NaN.
class Tensors {
 public:
  Tensors(const GraphSpec& spec, const plain::Operands& inputs, const plain::Operands& outputs) {
    for (const auto& [id, values] : inputs) {
      if (id == TensorId::mask) {
        mask_.emplace(values.size() / 8);
        mask_->set(bits_of(values));
      } else {
        tensors_.try_emplace(id, plain::type_of(spec, id), values);
      }
    }
    for (const auto& [id, values] : outputs) { add_output(spec, id); }
    for (const TensorId id : unread(spec.kind)) { add_output(spec, id); }
    check(cudaDeviceSynchronize());  // the graph's stream waits for no other
  }
  TensorPointers pointers() const {
    TensorPointers all;
    for (const auto& [id, tensor] : tensors_) { all[id] = tensor.data(); }
    if (mask_) { all[TensorId::mask] = mask_->data(); }
    return all;
  }
  Values values(TensorId id) const { return tensors_.at(id).values(); }

 private:
  void add_output(const GraphSpec& spec, TensorId id) {
    tensors_.try_emplace(id, plain::type_of(spec, id), plain::count_of(spec, id));
  }
  static std::vector<std::uint8_t> bits_of(const Values& values) {
    std::vector<std::uint8_t> bits(values.size() / 8);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != 0) { bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | 1U << (i % 8)); }
    }
    return bits;
  }
  /// What such a graph also writes, which the trainer does not read.
  static std::vector<TensorId> unread(GraphKind kind) {
    std::vector<TensorId> ids;
    if (kind == GraphKind::backward_data_norm || kind == GraphKind::backward_data_tail ||
        kind == GraphKind::backward_data_tail_norm) {
      ids = {TensorId::factor_dy, TensorId::factor_x, TensorId::constant};
    }
    if (kind == GraphKind::backward_data_tail_norm) {
      ids.insert(ids.end(),
                 {TensorId::shortcut_factor_dy, TensorId::shortcut_factor_x, TensorId::shortcut_constant});
    }
    return ids;
  }
  std::map<TensorId, Tensor> tensors_;
  std::optional<Buffer> mask_;
};

/// False where the engine refuses to run, in which case the trainer takes another.
bool run(const GraphPlan& plan, std::size_t candidate, const Tensors& tensors, const GpuStream& stream) {
  const Buffer workspace(static_cast<std::size_t>(std::max<std::int64_t>(plan.workspace_bytes(), 1)));
  check(cudaDeviceSynchronize());
  try {
    plan.run_candidate(candidate, tensors.pointers(), workspace.data());
  } catch (const GpuFault&) { throw; } catch (const Error&) {
    return false;
  }
  stream.wait();
  return true;
}

/// Equal inputs must give equal bits where cuDNN says so; sums over rows may be added in any order.
void check_repeats(const GraphSpec& spec, const GraphPlan& plan, std::size_t candidate,
                   const Tensors& tensors, const plain::Operands& outputs, const GpuStream& stream,
                   Tally& tally) {
  const int runs = has_sums(spec.kind) ? 10 : 3;
  std::map<TensorId, Values> first;
  for (const auto& [id, values] : outputs) { first[id] = tensors.values(id); }
  bool is_equal = true;
  for (int i = 1; i < runs && run(plan, candidate, tensors, stream); ++i) {
    for (const auto& [id, values] : first) {
      const Values again = tensors.values(id);
      if (has_sums(spec.kind) && plain::type_of(spec, id) == Numeric::fp32) {
        tally.sums_differ = std::max(tally.sums_differ, plain::relative_error(again, values));
      } else {
        is_equal = is_equal && again == values;
      }
    }
  }
  if (!is_equal) { ++tally.unequal; }
  CHECK((is_equal || !plan.is_repeatable()));
  CHECK(tally.sums_differ <= 1e-6);
}

GraphPlan plan_of(const GraphSpec& spec, const Cudnn& cudnn) {
  return {spec, [&](SumsAs sums) { return cudnn.build(spec, 0, sums); }, std::nullopt};
}

/// `must_be_there`: else a shape for which cuDNN compiles nothing is counted.
void check_engines(const GraphSpec& spec, const Cudnn& cudnn, const GpuStream& stream, bool must_be_there,
                   Tally& tally) {
  CAPTURE(to_string(spec));
  GraphPlan plan = plan_of(spec, cudnn);
  CAPTURE(plan.refusal());
  ++tally.shapes;
  if (!plan.found() && !must_be_there) {
    ++tally.lacking;
    return;
  }
  CHECK(plan.found());
  const plain::Operands inputs = plain::random_inputs(spec), expected = plain::reference(spec, inputs);
  const int before = tally.engines;
  for (std::size_t i = 0; i < plan.candidates(); ++i) {
    plan.choose(i);
    const Tensors tensors(spec, inputs, expected);
    if (!run(plan, i, tensors, stream)) {
      ++tally.refused;
      continue;
    }
    ++tally.engines;
    for (const auto& [id, values] : expected) {
      const double error = plain::relative_error(tensors.values(id), values);
      tally.worst = std::max(tally.worst, error);
      CAPTURE(plan.name(), static_cast<int>(id));
      CHECK(error <= plain::operation_tolerance(spec.numeric));
    }
    check_repeats(spec, plan, i, tensors, expected, stream, tally);
  }
  CHECK(tally.engines > before);
}

/// What such a graph writes and the trainer reads.
std::vector<TensorId> outputs_of(GraphKind kind) {
  using enum TensorId;
  switch (kind) {
    case GraphKind::convolution_statistics:
      return {y, sum, square_sum};
    case GraphKind::backward_data_tail_norm:
      return {dx, scale_grad, shift_grad, shortcut_scale_grad, shortcut_shift_grad};
    case GraphKind::backward_data_norm:
    case GraphKind::backward_data_tail:
      return {dx, scale_grad, shift_grad};
    default:
      return {y};
  }
}

}  // namespace

TEST_CASE("each operation of cuDNN alone is what fp64 says, by each engine") {
  require_gpu();
  LonePeer alone;
  const Gpu gpu = take_gpu(alone);
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::tf32, Numeric::bf16, Numeric::fp16);
  const GraphKind kind = GENERATE(
      GraphKind::convolution, GraphKind::backward_data, GraphKind::backward_weights,
      GraphKind::backward_data_add, GraphKind::backward_data_add_mask, GraphKind::convolution_statistics,
      GraphKind::norm_convolution_statistics, GraphKind::backward_data_norm, GraphKind::norm_backward_weights,
      GraphKind::backward_data_tail, GraphKind::backward_data_tail_norm);
  if (!is_possible(numeric, gpu.compute_capability)) { return; }
  const auto fusion = kind_of(kind);
  if (fusion && !is_offered(*fusion, numeric)) { return; }
  if (plain::level_of(kind) > widest_fusion(numeric, gpu.compute_capability)) { return; }
  // Strict fp32 has no mask: the only engine with it does not compile.
  const bool must_be_there = plain::level_of(kind) <= highest_fusion(numeric, gpu.compute_capability) &&
                             kind != GraphKind::backward_data_add_mask;
  const GpuStream stream;
  const Cudnn cudnn(stream.get());
  Tally tally;
  for (const GraphSpec& spec : plain::operation_graphs(kind, numeric)) {
    check_engines(spec, cudnn, stream, must_be_there, tally);
  }
  // A line of the report of scripts/gpu-check.
  std::cout << fmt::format(
                   "- {} {}: {} engines at {} shapes, at most {:.2g} away of {:.2g} allowed, "
                   "{} unequal from run to run, sums by {:.2g}{}{}\n",
                   to_string(kind), to_string(numeric), tally.engines, tally.shapes, tally.worst,
                   plain::operation_tolerance(numeric), tally.unequal, tally.sums_differ,
                   tally.refused == 0 ? "" : fmt::format(", {} refused to run", tally.refused),
                   tally.lacking == 0 ? "" : fmt::format(", none at {} shapes", tally.lacking))
            << std::flush;
}

// Many blocks add to the same sums only at sizes that are trained; a race between them would show here.
TEST_CASE("one graph ten times gives the same activations, and sums that differ by their order alone") {
  require_gpu();
  LonePeer alone;
  const Gpu gpu = take_gpu(alone);
  const Numeric numeric = GENERATE(Numeric::fp16, Numeric::bf16);
  const GraphKind kind = GENERATE(GraphKind::convolution_statistics, GraphKind::backward_data_norm,
                                  GraphKind::backward_data_tail);
  const int kernel = GENERATE(1, 3);
  if (!is_possible(numeric, gpu.compute_capability)) { return; }
  if (plain::level_of(kind) > widest_fusion(numeric, gpu.compute_capability)) { return; }
  if (kind == GraphKind::backward_data_tail && kernel == 3) { return; }
  const GraphSpec spec{kind, numeric, 16, kernel == 1 ? 256 : 64, 64, 56, kernel, 1, kernel / 2};
  CAPTURE(to_string(spec));
  const GpuStream stream;
  const Cudnn cudnn(stream.get());
  GraphPlan plan = plan_of(spec, cudnn);
  const plain::Operands inputs = plain::random_inputs(spec);
  plain::Operands outputs;
  for (const TensorId id : outputs_of(kind)) { outputs[id] = {}; }
  Tally tally;
  for (std::size_t i = 0; i < plan.candidates(); ++i) {
    const Tensors tensors(spec, inputs, outputs);
    plan.choose(i);
    if (!run(plan, i, tensors, stream)) { continue; }
    ++tally.engines;
    CAPTURE(plan.name_of(i));
    check_repeats(spec, plan, i, tensors, outputs, stream, tally);
  }
  std::cout << fmt::format("- {} ten times: {} engines, {} unequal, sums by {:.2g} of 1e-06 allowed\n",
                           to_string(spec), tally.engines, tally.unequal, tally.sums_differ)
            << std::flush;
}
