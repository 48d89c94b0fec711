#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/resnet50/cuda/kernels/kernels.h"
#include "workloads/resnet50/cuda/program/graph_spec.h"

/// The operations that a step is made of. Each is described once, by the parameters here and its row in
/// operations.cpp: what it reads, what it writes, its pass, its launch. A tensor that a kernel may do without
/// can be no_tensor.

namespace virtrain::resnet50::cuda {

// One operation of a training step as data: what it reads and writes, to which pass it belongs, and how it
// is launched. Whoever looks at a step (memory plan, traffic, executor, tests) needs to know no more of it.

/// Index into StepProgram::tensors.
using Ref = int;
inline constexpr Ref no_tensor = -1;

enum class Access { read, write };

/// A tensor of an operation; one that is changed is there twice.
struct Operand {
  Ref tensor = no_tensor;
  Access access = Access::read;
  std::int64_t elements = whole;  ///< that are touched in one micro-batch

  static constexpr std::int64_t whole = -1;
};

/// A cuDNN graph.
struct RunGraph {
  GraphSpec spec;
  std::vector<std::pair<TensorId, Ref>> tensors;
};

/// The GPU's clock in nanoseconds into one of the stamps.
struct Stamp {
  int index = 0;
  Ref stamps = no_tensor;  ///< none: nothing is noted
};

/// Starts the sum over all ranks, in place, beside what follows.
struct AllReduce {
  std::int64_t first = 0, count = 0;
  Ref values = no_tensor;
  Numeric numeric = Numeric::fp32;
  Stamp begin, end;  ///< beside it as well
};

/// Who runs a step: gives its tensors their places, and does what is no kernel of ours.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void run(const RunGraph& graph) = 0;
  virtual void start(const AllReduce& reduction) = 0;
  /// Until all that were started are done.
  virtual void await_reductions() = 0;
  virtual Numeric numeric() const = 0;  ///< of activations
  virtual Stream stream() const = 0;
  virtual const Kernels& kernels() const = 0;

  /// Where a tensor of the micro-batch that runs begins; null for no_tensor.
  template <typename T = void>
  T* at(Ref tensor) const {
    return tensor == no_tensor ? nullptr : reinterpret_cast<T*>(place(tensor));
  }

 private:
  virtual std::byte* place(Ref tensor) const = 0;
};

/// In which micro-batches of a step an operation runs.
enum class When { every, first, later, last };

struct Operation {
  std::string name = {};  ///< "layer1.0.conv1 forward": in traces
  When when = When::every;
  const char* kernel = "";  ///< as kernels.h names it, or "graph", "all_reduce", "await"
  const char* pass = "";    ///< the row that it belongs to where a step is taken apart: "norm apply"
  std::vector<Operand> operands = {};
  std::function<void(Runner&, Sweep)> launch = {};
  bool sweeps = false;  ///< can go through its tensors in either order
  Sweep sweep = Sweep::ascending;
  std::optional<RunGraph> graph = {};
  std::optional<AllReduce> reduction = {};
  std::optional<Stamp> moment = {};
  std::vector<std::string> sites = {};  ///< the choices of fusion on which it depends (fusion_site)

  /// Whether it is about other ranks: a rank that is alone leaves it out.
  bool communicates() const;
};

/// The vectors of one normalization, of `channels` fp32 elements each.
struct NormRefs {
  Ref gamma = no_tensor, beta = no_tensor, mean = no_tensor, inverse_std = no_tensor;
  Ref running_mean = no_tensor, running_variance = no_tensor;
};
struct PartialRefs {
  Ref first = no_tensor, second = no_tensor, tickets = no_tensor;
};
struct NormGradientRefs {
  Ref gamma = no_tensor, beta = no_tensor, factors = no_tensor;
};

// Our kernels, with the names and the meaning that kernels.h gives them.
struct NormSums {
  RowShape shape;
  Ref x;
  NormRefs norm;
  PartialRefs partial;
  Ref scale16, shift16;
};
struct NormFinalize {
  RowShape shape;
  Ref sum, square_sum;
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
  PartialRefs partial;
  NormGradientRefs out;
};
struct NormBackwardApply {
  RowShape shape;
  Ref dy, mask, x, factors, dx, masked;
};
struct NormBackwardApplySums {
  RowShape shape;
  Ref dy, x;
  NormRefs norm;
  Ref sum, product_sum, gamma_grad, beta_grad, dx;
};
struct NormMaxPool {
  PoolShape shape;
  Ref x;
  NormRefs norm;
  Ref y, position;
};
struct PooledNormBackwardSums {
  PoolShape shape;
  Ref dy, position, x;
  NormRefs norm;
  PartialRefs partial;
  NormGradientRefs out;
};
struct PooledNormBackwardApply {
  PoolShape shape;
  Ref dy, position, x, factors, dx;
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
  int rows, classes, ranks;
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
/// The first micro-batch's gradients into the sum over micro-batches, in fp32: elements of both.
struct Widen {
  std::int64_t first, count;
  Ref values;
  Numeric numeric;  ///< of the values
  Ref sum;
};
/// A later one's.
struct Accumulate {
  std::int64_t first, count;
  Ref values;
  Numeric numeric;
  Ref sum;
};
struct AwaitAllReduce {};
struct FindOverflow {
  std::int64_t count;
  Ref values;
  Numeric numeric;
  Ref loss_scale;
};
struct Sgd {
  std::int64_t count;
  Ref gradient;
  Numeric numeric;  ///< of the gradient
  Ref parameters, velocity, copy, rule, loss_scale;
};
struct AdvanceLossScale {
  Ref loss_scale;
};

Operation row(const RunGraph& a);
Operation row(const NormSums& a);
Operation row(const NormFinalize& a);
Operation row(const NormApply& a);
Operation row(const NormBackwardSums& a);
Operation row(const NormBackwardApply& a);
Operation row(const NormBackwardApplySums& a);
Operation row(const NormMaxPool& a);
Operation row(const PooledNormBackwardSums& a);
Operation row(const PooledNormBackwardApply& a);
Operation row(const AveragePool& a);
Operation row(const AveragePoolBackward& a);
Operation row(const Add& a);
Operation row(const SoftmaxCrossEntropy& a);
Operation row(const MeanLoss& a);
Operation row(const ColumnSums& a);
Operation row(const Widen& a);
Operation row(const Accumulate& a);
Operation row(const AllReduce& a);
Operation row(const AwaitAllReduce& a);
Operation row(const Stamp& a);
Operation row(const FindOverflow& a);
Operation row(const Sgd& a);
Operation row(const AdvanceLossScale& a);

}  // namespace virtrain::resnet50::cuda
