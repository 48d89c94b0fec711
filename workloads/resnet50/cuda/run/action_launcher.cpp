#include "workloads/resnet50/cuda/run/action_launcher.h"

namespace virtrain::resnet50::cuda {

template <typename T>
T* ActionLauncher::at(Ref tensor, std::int64_t first) const {
  if (tensor == no_tensor) { return nullptr; }
  const std::int64_t offset = first * bytes_of(executor_.program_.at(tensor).element, numeric());
  return reinterpret_cast<T*>(executor_.at(tensor, micro_batch_) + offset);
}

NormVectors ActionLauncher::vectors(const NormRefs& norm) const {
  return {at<float>(norm.gamma),       at<float>(norm.beta),         at<float>(norm.mean),
          at<float>(norm.inverse_std), at<float>(norm.running_mean), at<float>(norm.running_variance)};
}

PartialSums ActionLauncher::sums(Ref first, Ref second, const RowShape& shape, bool one_row) const {
  return {at<float>(first), at<float>(second), one_row ? 1 : partial_blocks(shape)};
}

void ActionLauncher::note(const Stamp& a, Stream on) const {
  if (a.stamps != no_tensor) { cuda::stamp(at<std::uint64_t>(a.stamps) + a.index, on); }
}

void ActionLauncher::operator()(const RunGraph& a) const {
  executor_.graphs_->run(a, executor_.pointers(a, micro_batch_),
                         executor_.arena_.get() + executor_.plan_.workspace_offset);
}

void ActionLauncher::operator()(const NormSums& a) const {
  norm_sums(numeric(), at(a.x), a.shape, sums(a.first, a.second, a.shape, false), stream());
}
void ActionLauncher::operator()(const NormFinalize& a) const {
  norm_finalize(numeric(), at(a.origin), sums(a.first, a.second, a.shape, a.origin == no_tensor), a.shape,
                vectors(a.norm), at(a.scale16), at(a.shift16), stream());
}
void ActionLauncher::operator()(const NormApply& a) const {
  const NormVectors shortcut_vectors = vectors(a.shortcut_norm);
  const bool normalizes = a.shortcut_norm.mean != no_tensor;
  norm_apply(numeric(), at(a.x), a.shape, vectors(a.norm),
             {at(a.shortcut), normalizes ? &shortcut_vectors : nullptr}, at(a.y), at<std::uint8_t>(a.mask),
             stream());
}
void ActionLauncher::operator()(const NormBackwardSums& a) const {
  norm_backward_sums(numeric(), at(a.dy), at<std::uint8_t>(a.mask), at(a.x), a.shape, vectors(a.norm),
                     sums(a.first, a.second, a.shape, false), stream());
}
void ActionLauncher::operator()(const NormBackwardFinalize& a) const {
  norm_backward_finalize(sums(a.first, a.second, a.shape, a.from_graph), a.shape, vectors(a.norm),
                         at<float>(a.gamma_grad), at<float>(a.beta_grad), at<BackwardFactors>(a.factors),
                         stream());
}
void ActionLauncher::operator()(const NormBackwardApply& a) const {
  norm_backward_apply(numeric(), at(a.dy), at<std::uint8_t>(a.mask), at(a.x), a.shape,
                      at<BackwardFactors>(a.factors), at(a.dx), at(a.masked), stream());
}

void ActionLauncher::operator()(const MaxPool& a) const {
  max_pool(numeric(), at(a.x), a.shape, at(a.y), at<std::uint8_t>(a.position), stream());
}
void ActionLauncher::operator()(const MaxPoolBackward& a) const {
  max_pool_backward(numeric(), at(a.dy), at<std::uint8_t>(a.position), a.shape, at(a.dx), stream());
}
void ActionLauncher::operator()(const AveragePool& a) const {
  average_pool(numeric(), at(a.x), a.batch, a.positions, a.channels, at(a.y), stream());
}
void ActionLauncher::operator()(const AveragePoolBackward& a) const {
  average_pool_backward(numeric(), at(a.dy), a.batch, a.positions, a.channels, at(a.dx), stream());
}
void ActionLauncher::operator()(const Add& a) const {
  add(numeric(), at(a.a), at(a.b), a.count, at(a.sum), stream());
}

void ActionLauncher::operator()(const SoftmaxCrossEntropy& a) const {
  softmax_cross_entropy(numeric(), at(a.logits), at<float>(a.bias), at<std::int32_t>(a.labels), a.rows,
                        a.classes, at<LossScale>(a.loss_scale), at<float>(a.row_loss), at(a.gradient),
                        stream());
}
void ActionLauncher::operator()(const MeanLoss& a) const {
  mean_loss(at<float>(a.row_loss), a.rows, at<float>(a.loss), stream());
}
void ActionLauncher::operator()(const ColumnSums& a) const {
  column_sums(numeric(), at(a.values), a.rows, a.columns, at<float>(a.sums), stream());
}

void ActionLauncher::operator()(const Widen& a) const {
  widen(numeric_of(a.values), at(a.values, a.first), a.count, at<float>(a.sum, a.first), stream());
}
void ActionLauncher::operator()(const Accumulate& a) const {
  accumulate(numeric_of(a.values), at(a.values, a.first), a.count, at<float>(a.sum, a.first), stream());
}
void ActionLauncher::operator()(const AllReduce& a) const {
  const Stream other = executor_.communication_.get();
  executor_.gradients_ready_.record(stream());
  executor_.gradients_ready_.hold(other);
  note(a.begin, other);
  executor_.exchange_->mean(at(a.values, a.first), a.count, numeric_of(a.values), other);
  note(a.end, other);
}
void ActionLauncher::operator()(const AwaitAllReduce&) const {
  executor_.gradients_reduced_.record(executor_.communication_.get());
  executor_.gradients_reduced_.hold(stream());
}

void ActionLauncher::operator()(const FindOverflow& a) const {
  find_overflow(numeric_of(a.values), at(a.values), a.count, at<LossScale>(a.loss_scale), stream());
}
void ActionLauncher::operator()(const Sgd& a) const {
  sgd(numeric_of(a.gradient), at(a.gradient), a.count, at<float>(a.parameters), at<float>(a.velocity),
      numeric(), at(a.copy), at<SgdRule>(a.rule), at<LossScale>(a.loss_scale), stream());
}
void ActionLauncher::operator()(const AdvanceLossScale& a) const {
  advance_loss_scale(at<LossScale>(a.loss_scale), stream());
}

}  // namespace virtrain::resnet50::cuda
