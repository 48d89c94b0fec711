#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/cuda/program/graph_spec.h"
#include "workloads/resnet50/cuda/program/parameter_layout.h"
#include "workloads/resnet50/model.h"

/// A training step as data: tensors, and the operations on them in order. Whoever runs it (the GPU's
/// executor, the tests' interpreter) needs no choice of its own: how much is fused decides which operations
/// are here.
namespace virtrain::resnet50::cuda {

/// Index into StepProgram::tensors.
using Ref = int;
inline constexpr Ref no_tensor = -1;

enum class Element { activation, fp32, int32, byte, backward_factors, loss_scale, sgd_rule, time };
std::int64_t bytes_of(Element element, Numeric numeric);

struct ProgramTensor {
  std::string name;  ///< "layer1.0.conv1.y"
  Element element = Element::activation;
  std::int64_t count = 0;        ///< elements, of all micro-batches
  bool persistent = false;       ///< keeps its value over steps; else it lives from its first to its last use
  bool per_micro_batch = false;  ///< micro-batch m has the m-th part of it
  Ref view_of = no_tensor;       ///< part of that tensor, from element `first` on
  std::int64_t first = 0;
};

/// The vectors of one normalization, of `channels` fp32 elements each.
struct NormRefs {
  Ref gamma = no_tensor, beta = no_tensor, mean = no_tensor, inverse_std = no_tensor;
  Ref running_mean = no_tensor, running_variance = no_tensor;
};

/// A cuDNN graph.
struct RunGraph {
  GraphSpec spec;
  std::vector<std::pair<TensorId, Ref>> tensors;
};

// Our kernels, with the names and the meaning that kernels.h gives them. A tensor that a kernel may do
// without can be no_tensor.
struct NormSums {
  RowShape shape;
  Ref x, first, second;
};
struct NormFinalize {
  RowShape shape;
  Ref origin;  ///< no_tensor: the sums are a graph's, one row of them
  Ref first, second;
  NormRefs norm;
  Ref scale16, shift16;
};
struct NormApply {
  RowShape shape;
  Ref x;
  NormRefs norm;
  Ref shortcut;
  NormRefs shortcut_norm;  ///< its mean is no_tensor where the shortcut is not normalized
  Ref y, mask;
};
struct NormBackwardSums {
  RowShape shape;
  Ref dy, mask, x;
  NormRefs norm;
  Ref first, second;
};
struct NormBackwardFinalize {
  RowShape shape;
  Ref first, second;
  bool from_graph;  ///< then the sums are one row
  NormRefs norm;
  Ref gamma_grad, beta_grad, factors;
};
struct NormBackwardApply {
  RowShape shape;
  Ref dy, mask, x, factors, dx, masked;
};
struct MaxPool {
  PoolShape shape;
  Ref x, y, position;
};
struct MaxPoolBackward {
  PoolShape shape;
  Ref dy, position, dx;
};
struct AveragePool {
  int batch, positions, channels;
  Ref x, y;
};
struct AveragePoolBackward {
  int batch, positions, channels;
  Ref dy, dx;
};
struct Add {
  std::int64_t count;
  Ref a, b, sum;
};
struct SoftmaxCrossEntropy {
  int rows, classes;
  Ref logits, bias, labels, loss_scale, row_loss, gradient;
};
struct MeanLoss {
  int rows;
  Ref row_loss, loss;
};
struct ColumnSums {
  int rows, columns;
  Ref values, sums;
};
/// The first micro-batch's gradients into the sum over micro-batches, in fp32.
struct Widen {
  std::int64_t first, count;  ///< elements of both
  Ref values, sum;
};
/// A later one's.
struct Accumulate {
  std::int64_t first, count;
  Ref values, sum;
};
/// The GPU's clock in nanoseconds into one of the stamps.
struct Stamp {
  int index;
  Ref stamps;
};
/// Starts the mean over all ranks, in place, beside what follows.
struct AllReduce {
  std::int64_t first, count;
  Ref values;
  Stamp begin, end;  ///< beside it as well; their tensor is no_tensor where none are wanted
};
/// Until all that were started are done.
struct AwaitAllReduce {};
struct FindOverflow {
  std::int64_t count;
  Ref values, loss_scale;
};
struct Sgd {
  std::int64_t count;
  Ref gradient, parameters, velocity, copy, rule, loss_scale;
};
struct AdvanceLossScale {
  Ref loss_scale;
};

using Action =
    std::variant<RunGraph, NormSums, NormFinalize, NormApply, NormBackwardSums, NormBackwardFinalize,
                 NormBackwardApply, MaxPool, MaxPoolBackward, AveragePool, AveragePoolBackward, Add,
                 SoftmaxCrossEntropy, MeanLoss, ColumnSums, Widen, Accumulate, AllReduce, AwaitAllReduce,
                 FindOverflow, Sgd, AdvanceLossScale, Stamp>;

/// In which micro-batches of a step an operation runs.
enum class When { every, first, later, last };

struct Operation {
  std::string name;  ///< "layer1.0.conv1 forward": in traces
  When when = When::every;
  Action action;
};

struct StepSettings {
  int batch = 1;  ///< images of a micro-batch
  Numeric numeric = Numeric::fp32;
  Fusion fusion = Fusion::none;
  int accumulate_steps = 1;  ///< micro-batches
  bool all_reduce = false;   ///< more than one rank
  std::int64_t bucket_bytes = 25LL << 20;
  bool stamps = false;  ///< note when the parts of the step begin and end
};

/// A part of the step between two stamps.
struct StampedSpan {
  std::string name;  ///< "forward", "all-reduce weights 0"
  bool communicates = false;
  int begin = 0, end = 0;
};

/// What is read or written from outside.
struct StepHandles {
  Ref images =
      no_tensor;  ///< NHWC with padded_image_channels, activations' type, per micro-batch: each part padded
  Ref labels = no_tensor;  ///< int32, per micro-batch
  Ref losses = no_tensor;  ///< fp32, one per micro-batch
  Ref loss_scale = no_tensor, rule = no_tensor;
  Ref stamps = no_tensor;  ///< times, one for each stamp
  /// By ParameterGroup: whole blocks. The copy is no_tensor where the graphs read the masters themselves.
  struct Block {
    Ref masters = no_tensor, velocity = no_tensor, copy = no_tensor;
    Ref gradient = no_tensor;  ///< what the update reads: summed over micro-batches, the mean of all ranks
  };
  Block weights, vectors;
  std::vector<NormRefs> norms;  ///< in the order of norms(model)
};

struct StepProgram {
  StepSettings settings;
  ParameterLayout parameters;
  std::vector<ProgramTensor> tensors;
  std::vector<Operation> micro_batch;  ///< run for each micro-batch
  std::vector<Operation> update;       ///< then once
  StepHandles handles;
  std::vector<StampedSpan> spans;  ///< empty without stamps
  /// Stamps around the wait for the ranks' means, which computing does not hide.
  int exposed_begin = 0, exposed_end = 0;

  const ProgramTensor& at(Ref tensor) const { return tensors[static_cast<std::size_t>(tensor)]; }
  /// Runs visit(operation, micro-batch) in order.
  void for_each(const std::function<void(const Operation&, int)>& visit) const;
};

/// In which type a tensor of activations or of fp32 is handed to what takes any.
Numeric numeric_of(const StepProgram& program, Ref tensor);

/// What one rank gives to the others in a step, in order.
struct Reduction {
  std::int64_t count = 0;
  Numeric numeric = Numeric::fp32;
};
std::vector<Reduction> reductions_of(const StepProgram& program);

enum class Access { read, write };
/// Calls visit for each tensor of an operation; for one that it changes, read and write.
void for_each_access(const Action& action, const std::function<void(Ref, Access)>& visit);

/// Each distinct graph of one training step, in the order of first use.
std::vector<GraphSpec> graphs_of(const StepProgram& program);

}  // namespace virtrain::resnet50::cuda
