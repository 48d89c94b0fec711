#pragma once

#include "workloads/resnet50/cuda/program/operation.h"

/// The operations that a step is made of. Each is described once, by the parameters here and its row in
/// operations.cpp: what it reads, what it writes, its pass, its launch. A tensor that a kernel may do without
/// can be no_tensor.
namespace virtrain::resnet50::cuda {

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
struct NormBackwardFinalize {
  RowShape shape;
  Ref sum, product_sum;
  NormRefs norm;
  NormGradientRefs out;
};
struct NormBackwardApply {
  RowShape shape;
  Ref dy, mask, x, factors, dx, masked;
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
Operation row(const NormBackwardFinalize& a);
Operation row(const NormBackwardApply& a);
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
