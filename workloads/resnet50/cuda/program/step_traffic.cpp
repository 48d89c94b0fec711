#include "workloads/resnet50/cuda/program/step_traffic.h"

namespace virtrain::resnet50::cuda {
namespace {

class PassOf {
 public:
  std::string operator()(const RunGraph& a) const {
    switch (a.spec.kind) {
      case GraphKind::convolution:
      case GraphKind::convolution_statistics:
      case GraphKind::norm_convolution_statistics:
        return "convolution forward";
      case GraphKind::backward_data:
      case GraphKind::backward_data_add:
      case GraphKind::backward_data_norm:
        return "convolution backward data";
      case GraphKind::backward_weights:
      case GraphKind::norm_backward_weights:
        return "convolution backward weights";
    }
    return "?";
  }
  std::string operator()(const NormSums&) const { return "norm sums"; }
  std::string operator()(const NormFinalize&) const { return "norm finalize"; }
  std::string operator()(const NormApply&) const { return "norm apply"; }
  std::string operator()(const NormBackwardSums&) const { return "norm backward sums"; }
  std::string operator()(const NormBackwardFinalize&) const { return "norm backward finalize"; }
  std::string operator()(const NormBackwardApply&) const { return "norm backward apply"; }
  std::string operator()(const MaxPool&) const { return "pool"; }
  std::string operator()(const MaxPoolBackward&) const { return "pool"; }
  std::string operator()(const AveragePool&) const { return "pool"; }
  std::string operator()(const AveragePoolBackward&) const { return "pool"; }
  std::string operator()(const Add&) const { return "addition"; }
  std::string operator()(const SoftmaxCrossEntropy&) const { return "loss"; }
  std::string operator()(const MeanLoss&) const { return "loss"; }
  std::string operator()(const ColumnSums&) const { return "loss"; }
  std::string operator()(const Widen&) const { return "accumulate"; }
  std::string operator()(const Accumulate&) const { return "accumulate"; }
  std::string operator()(const AllReduce&) const { return "all-reduce"; }
  std::string operator()(const AwaitAllReduce&) const { return "all-reduce"; }
  std::string operator()(const FindOverflow&) const { return "update"; }
  std::string operator()(const Sgd&) const { return "update"; }
  std::string operator()(const AdvanceLossScale&) const { return "update"; }
  std::string operator()(const Stamp&) const { return "stamp"; }
};

/// Elements of this tensor that the action touches, of the `all` that a micro-batch has.
std::int64_t touched(const Action& action, Ref ref, std::int64_t all) {
  if (const auto* const a = std::get_if<Widen>(&action)) { return a->count; }
  if (const auto* const a = std::get_if<Accumulate>(&action)) { return a->count; }
  if (const auto* const a = std::get_if<AllReduce>(&action)) { return ref == a->values ? a->count : 1; }
  if (std::holds_alternative<Stamp>(action)) { return 1; }
  const auto* const finalize = std::get_if<NormFinalize>(&action);  // reads the first row of what was summed
  return finalize != nullptr && ref == finalize->origin ? finalize->shape.channels : all;
}

}  // namespace

std::string pass_of(const Action& action) {
  return std::visit(PassOf(), action);
}

bool communicates(const Action& action) {
  return std::holds_alternative<AllReduce>(action) || std::holds_alternative<AwaitAllReduce>(action);
}

std::int64_t traffic_bytes(const StepProgram& program, const Action& action) {
  std::int64_t bytes = 0;
  for_each_access(action, [&](Ref ref, Access) {
    const ProgramTensor& tensor = program.at(ref);
    const std::int64_t all =
        tensor.per_micro_batch ? tensor.count / program.settings.accumulate_steps : tensor.count;
    bytes += touched(action, ref, all) * bytes_of(tensor.element, program.settings.numeric);
  });
  return bytes;
}

}  // namespace virtrain::resnet50::cuda
