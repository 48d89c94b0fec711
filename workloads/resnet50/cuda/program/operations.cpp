#include "workloads/resnet50/cuda/program/operations.h"

#include <initializer_list>
#include <string_view>

namespace virtrain::resnet50::cuda {
namespace {

using Refs = std::initializer_list<Ref>;
using Operands = std::vector<Operand>;

/// Operands that an operation reads and writes; no_tensor is neither.
Operands moves(Refs reads, Refs writes) {
  Operands all;
  for (const Ref tensor : reads) {
    if (tensor != no_tensor) { all.push_back({tensor, Access::read}); }
  }
  for (const Ref tensor : writes) {
    if (tensor != no_tensor) { all.push_back({tensor, Access::write}); }
  }
  return all;
}
Operands operator+(Operands all, const Operands& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
/// A few elements of it, whatever its size.
Operand some(Ref tensor, Access access, std::int64_t elements) {
  return {tensor, access, elements};
}
/// They stay in the cache: no traffic.
Operands in_cache(const PartialRefs& partial) {
  return {some(partial.first, Access::write, 0), some(partial.second, Access::write, 0),
          some(partial.tickets, Access::read, 0), some(partial.tickets, Access::write, 0)};
}
Operands factors_of(const NormRefs& norm) {
  return moves({norm.gamma, norm.beta, norm.mean, norm.inverse_std}, {});
}
Operands statistics_of(const NormRefs& norm, Ref scale16, Ref shift16) {
  return moves({norm.gamma, norm.beta, norm.running_mean, norm.running_variance},
               {norm.mean, norm.inverse_std, norm.running_mean, norm.running_variance, scale16, shift16});
}
Operands gradients_of(const NormRefs& norm, const NormGradientRefs& out) {
  return moves({norm.gamma, norm.mean, norm.inverse_std}, {out.gamma, out.beta, out.factors});
}

NormVectors vectors(const Runner& r, const NormRefs& norm) {
  return {r.at<float>(norm.gamma),       r.at<float>(norm.beta),         r.at<float>(norm.mean),
          r.at<float>(norm.inverse_std), r.at<float>(norm.running_mean), r.at<float>(norm.running_variance)};
}
PartialSums room(const Runner& r, const PartialRefs& partial) {
  return {r.at<float>(partial.first), r.at<float>(partial.second), r.at<int>(partial.tickets)};
}
NormGradients gradients(const Runner& r, const NormGradientRefs& out) {
  return {r.at<float>(out.gamma), r.at<float>(out.beta), r.at<BackwardFactors>(out.factors)};
}
std::byte* from(const Runner& r, Ref tensor, std::int64_t first, Numeric numeric) {
  return r.at<std::byte>(tensor) + first * element_bytes(numeric);
}
using Launch = std::function<void(Runner&, Sweep)>;

Operation make(const char* kernel, const char* pass, Operands operands, Launch launch) {
  Operation operation;
  operation.kernel = kernel;
  operation.pass = pass;
  operation.operands = std::move(operands);
  operation.launch = std::move(launch);
  return operation;
}
/// One that can go through its tensors in either order.
Operation make_sweep(const char* kernel, const char* pass, Operands operands, Launch launch) {
  Operation operation = make(kernel, pass, std::move(operands), std::move(launch));
  operation.sweeps = true;
  return operation;
}

}  // namespace

bool Operation::communicates() const {
  return pass == std::string_view("all-reduce");
}

Operation row(const RunGraph& a) {
  Operands operands;
  for (const auto& [id, tensor] : a.tensors) {
    operands.push_back({tensor, is_output(id) ? Access::write : Access::read});
  }
  Operation operation = make("graph", pass_of(a.spec.kind), operands, [a](Runner& r, Sweep) { r.run(a); });
  operation.graph = a;
  return operation;
}

Operation row(const NormSums& a) {
  return make_sweep("norm_sums", "norm sums",
                    moves({a.x}, {}) + statistics_of(a.norm, a.scale16, a.shift16) + in_cache(a.partial),
                    [a](Runner& r, Sweep sweep) {
                      r.kernels().norm_sums(r.numeric(), r.at(a.x), a.shape, room(r, a.partial),
                                            vectors(r, a.norm), r.at(a.scale16), r.at(a.shift16), sweep,
                                            r.stream());
                    });
}
Operation row(const NormFinalize& a) {
  return make("norm_finalize", "norm finalize",
              moves({a.sum, a.square_sum}, {}) + statistics_of(a.norm, a.scale16, a.shift16),
              [a](Runner& r, Sweep) {
                r.kernels().norm_finalize(r.numeric(), r.at<float>(a.sum), r.at<float>(a.square_sum), a.shape,
                                          vectors(r, a.norm), r.at(a.scale16), r.at(a.shift16), r.stream());
              });
}
Operation row(const NormApply& a) {
  return make_sweep(
      "norm_apply", "norm apply",
      moves({a.x, a.shortcut}, {a.y, a.mask}) + factors_of(a.norm) + factors_of(a.shortcut_norm),
      [a](Runner& r, Sweep sweep) {
        const NormVectors other = vectors(r, a.shortcut_norm);
        const bool normalizes = a.shortcut_norm.mean != no_tensor;
        r.kernels().norm_apply(r.numeric(), r.at(a.x), a.shape, vectors(r, a.norm),
                               {r.at(a.shortcut), normalizes ? &other : nullptr}, r.at(a.y),
                               r.at<std::uint8_t>(a.mask), sweep, r.stream());
      });
}
Operation row(const NormBackwardSums& a) {
  return make_sweep("norm_backward_sums", "norm backward sums",
                    moves({a.dy, a.mask, a.x}, {}) + gradients_of(a.norm, a.out) + in_cache(a.partial),
                    [a](Runner& r, Sweep sweep) {
                      r.kernels().norm_backward_sums(
                          r.numeric(), r.at(a.dy), r.at<std::uint8_t>(a.mask), r.at(a.x), a.shape,
                          vectors(r, a.norm), room(r, a.partial), gradients(r, a.out), sweep, r.stream());
                    });
}
Operation row(const NormBackwardApply& a) {
  return make_sweep("norm_backward_apply", "norm backward apply",
                    moves({a.dy, a.mask, a.x, a.factors}, {a.dx, a.masked}), [a](Runner& r, Sweep sweep) {
                      r.kernels().norm_backward_apply(r.numeric(), r.at(a.dy), r.at<std::uint8_t>(a.mask),
                                                      r.at(a.x), a.shape, r.at<BackwardFactors>(a.factors),
                                                      r.at(a.dx), r.at(a.masked), sweep, r.stream());
                    });
}
Operation row(const NormBackwardApplySums& a) {
  return make_sweep("norm_backward_apply_sums", "norm backward apply",
                    moves({a.dy, a.x, a.sum, a.product_sum, a.norm.gamma, a.norm.mean, a.norm.inverse_std},
                          {a.dx, a.gamma_grad, a.beta_grad}),
                    [a](Runner& r, Sweep sweep) {
                      r.kernels().norm_backward_apply_sums(
                          r.numeric(), r.at(a.dy), r.at(a.x), a.shape, vectors(r, a.norm), r.at<float>(a.sum),
                          r.at<float>(a.product_sum), r.at<float>(a.gamma_grad), r.at<float>(a.beta_grad),
                          r.at(a.dx), sweep, r.stream());
                    });
}
Operation row(const NormMaxPool& a) {
  return make_sweep("norm_max_pool", "stem", moves({a.x}, {a.y, a.position}) + factors_of(a.norm),
                    [a](Runner& r, Sweep sweep) {
                      r.kernels().norm_max_pool(r.numeric(), r.at(a.x), a.shape, vectors(r, a.norm),
                                                r.at(a.y), r.at<std::uint8_t>(a.position), sweep, r.stream());
                    });
}
Operation row(const PooledNormBackwardSums& a) {
  return make_sweep("pooled_norm_backward_sums", "stem",
                    moves({a.dy, a.position, a.x}, {}) + gradients_of(a.norm, a.out) + in_cache(a.partial),
                    [a](Runner& r, Sweep sweep) {
                      r.kernels().pooled_norm_backward_sums(
                          r.numeric(), r.at(a.dy), r.at<std::uint8_t>(a.position), r.at(a.x), a.shape,
                          vectors(r, a.norm), room(r, a.partial), gradients(r, a.out), sweep, r.stream());
                    });
}
Operation row(const PooledNormBackwardApply& a) {
  return make_sweep("pooled_norm_backward_apply", "stem", moves({a.dy, a.position, a.x, a.factors}, {a.dx}),
                    [a](Runner& r, Sweep sweep) {
                      r.kernels().pooled_norm_backward_apply(
                          r.numeric(), r.at(a.dy), r.at<std::uint8_t>(a.position), r.at(a.x), a.shape,
                          r.at<BackwardFactors>(a.factors), r.at(a.dx), sweep, r.stream());
                    });
}

Operation row(const AveragePool& a) {
  return make("average_pool", "pool", moves({a.x}, {a.y}), [a](Runner& r, Sweep) {
    r.kernels().average_pool(r.numeric(), r.at(a.x), a.batch, a.positions, a.channels, r.at(a.y), r.stream());
  });
}
Operation row(const AveragePoolBackward& a) {
  return make("average_pool_backward", "pool", moves({a.dy}, {a.dx}), [a](Runner& r, Sweep) {
    r.kernels().average_pool_backward(r.numeric(), r.at(a.dy), a.batch, a.positions, a.channels, r.at(a.dx),
                                      r.stream());
  });
}
Operation row(const Add& a) {
  return make("add", "addition", moves({a.a, a.b}, {a.sum}), [a](Runner& r, Sweep) {
    r.kernels().add(r.numeric(), r.at(a.a), r.at(a.b), a.count, r.at(a.sum), r.stream());
  });
}

Operation row(const SoftmaxCrossEntropy& a) {
  return make(
      "softmax_cross_entropy", "loss",
      moves({a.logits, a.bias, a.labels, a.loss_scale}, {a.row_loss, a.gradient}), [a](Runner& r, Sweep) {
        r.kernels().softmax_cross_entropy(
            r.numeric(), r.at(a.logits), r.at<float>(a.bias), r.at<std::int32_t>(a.labels), a.rows, a.classes,
            a.ranks, r.at<LossScale>(a.loss_scale), r.at<float>(a.row_loss), r.at(a.gradient), r.stream());
      });
}
Operation row(const MeanLoss& a) {
  return make("mean_loss", "loss", moves({a.row_loss}, {a.loss}), [a](Runner& r, Sweep) {
    r.kernels().mean_loss(r.at<float>(a.row_loss), a.rows, r.at<float>(a.loss), r.stream());
  });
}
Operation row(const ColumnSums& a) {
  return make("column_sums", "loss", moves({a.values}, {a.sums}), [a](Runner& r, Sweep) {
    r.kernels().column_sums(r.numeric(), r.at(a.values), a.rows, a.columns, r.at<float>(a.sums), r.stream());
  });
}

Operation row(const Widen& a) {
  return make("widen", "accumulate",
              {some(a.values, Access::read, a.count), some(a.sum, Access::write, a.count)},
              [a](Runner& r, Sweep) {
                r.kernels().widen(a.numeric, from(r, a.values, a.first, a.numeric), a.count,
                                  r.at<float>(a.sum) + a.first, r.stream());
              });
}
Operation row(const Accumulate& a) {
  return make("accumulate", "accumulate",
              {some(a.values, Access::read, a.count), some(a.sum, Access::read, a.count),
               some(a.sum, Access::write, a.count)},
              [a](Runner& r, Sweep) {
                r.kernels().accumulate(a.numeric, from(r, a.values, a.first, a.numeric), a.count,
                                       r.at<float>(a.sum) + a.first, r.stream());
              });
}
Operation row(const AllReduce& a) {
  Operands operands{some(a.values, Access::read, a.count), some(a.values, Access::write, a.count)};
  for (const Stamp& moment : {a.begin, a.end}) {
    if (moment.stamps != no_tensor) { operands.push_back(some(moment.stamps, Access::write, 1)); }
  }
  Operation operation = make("all_reduce", "all-reduce", operands, [a](Runner& r, Sweep) { r.start(a); });
  operation.reduction = a;
  return operation;
}
Operation row(const AwaitAllReduce& /*a*/) {
  return make("await", "all-reduce", {}, [](Runner& r, Sweep) { r.await_reductions(); });
}
Operation row(const Stamp& a) {
  Operation operation = make("stamp", "stamp", {some(a.stamps, Access::write, 1)}, [a](Runner& r, Sweep) {
    r.kernels().stamp(r.at<std::uint64_t>(a.stamps) + a.index, r.stream());
  });
  operation.moment = a;
  return operation;
}

Operation row(const FindOverflow& a) {
  return make("find_overflow", "update", moves({a.values, a.loss_scale}, {a.loss_scale}),
              [a](Runner& r, Sweep) {
                r.kernels().find_overflow(a.numeric, r.at(a.values), a.count, r.at<LossScale>(a.loss_scale),
                                          r.stream());
              });
}
Operation row(const Sgd& a) {
  return make(
      "sgd", "update",
      moves({a.gradient, a.parameters, a.velocity, a.rule, a.loss_scale}, {a.parameters, a.velocity, a.copy}),
      [a](Runner& r, Sweep) {
        r.kernels().sgd(a.numeric, r.at(a.gradient), a.count, r.at<float>(a.parameters),
                        r.at<float>(a.velocity), r.numeric(), r.at(a.copy), r.at<SgdRule>(a.rule),
                        r.at<LossScale>(a.loss_scale), r.stream());
      });
}
Operation row(const AdvanceLossScale& a) {
  return make("advance_loss_scale", "update", moves({a.loss_scale}, {a.loss_scale}), [a](Runner& r, Sweep) {
    r.kernels().advance_loss_scale(r.at<LossScale>(a.loss_scale), r.stream());
  });
}

}  // namespace virtrain::resnet50::cuda
