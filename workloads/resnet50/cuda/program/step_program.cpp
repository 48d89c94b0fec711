#include "workloads/resnet50/cuda/program/step_program.h"

#include <algorithm>
#include <initializer_list>

namespace virtrain::resnet50::cuda {
namespace {

bool runs(When when, int micro_batch, int micro_batches) {
  switch (when) {
    case When::every:
      return true;
    case When::first:
      return micro_batch == 0;
    case When::later:
      return micro_batch > 0;
    case When::last:
      return micro_batch + 1 == micro_batches;
  }
  return false;
}

/// What each action reads and writes.
class Accesses {
 public:
  explicit Accesses(const std::function<void(Ref, Access)>& visit) : visit_(visit) {}

  void operator()(const RunGraph& a) const {
    for (const auto& [id, tensor] : a.tensors) {
      all({tensor}, is_output(id) ? Access::write : Access::read);
    }
  }
  void operator()(const NormSums& a) const { move({a.x}, {a.first, a.second}); }
  void operator()(const NormFinalize& a) const {
    move({a.origin, a.first, a.second, a.norm.gamma, a.norm.beta, a.norm.running_mean,
          a.norm.running_variance},
         {a.norm.mean, a.norm.inverse_std, a.norm.running_mean, a.norm.running_variance, a.scale16,
          a.shift16});
  }
  void operator()(const NormApply& a) const {
    normalize(a.norm);
    normalize(a.shortcut_norm);
    move({a.x, a.shortcut}, {a.y, a.mask});
  }
  void operator()(const NormBackwardSums& a) const {
    move({a.dy, a.mask, a.x, a.norm.mean, a.norm.inverse_std}, {a.first, a.second});
  }
  void operator()(const NormBackwardFinalize& a) const {
    move({a.first, a.second, a.norm.gamma, a.norm.mean, a.norm.inverse_std},
         {a.gamma_grad, a.beta_grad, a.factors});
  }
  void operator()(const NormBackwardApply& a) const {
    move({a.dy, a.mask, a.x, a.factors}, {a.dx, a.masked});
  }
  void operator()(const MaxPool& a) const { move({a.x}, {a.y, a.position}); }
  void operator()(const MaxPoolBackward& a) const { move({a.dy, a.position}, {a.dx}); }
  void operator()(const AveragePool& a) const { move({a.x}, {a.y}); }
  void operator()(const AveragePoolBackward& a) const { move({a.dy}, {a.dx}); }
  void operator()(const Add& a) const { move({a.a, a.b}, {a.sum}); }
  void operator()(const SoftmaxCrossEntropy& a) const {
    move({a.logits, a.bias, a.labels, a.loss_scale}, {a.row_loss, a.gradient});
  }
  void operator()(const MeanLoss& a) const { move({a.row_loss}, {a.loss}); }
  void operator()(const ColumnSums& a) const { move({a.values}, {a.sums}); }
  void operator()(const Widen& a) const { move({a.values}, {a.sum}); }
  void operator()(const Accumulate& a) const { move({a.values, a.sum}, {a.sum}); }
  void operator()(const AllReduce& a) const { move({a.values}, {a.values, a.begin.stamps, a.end.stamps}); }
  void operator()(const Stamp& a) const { move({}, {a.stamps}); }
  void operator()(const AwaitAllReduce&) const {}
  void operator()(const FindOverflow& a) const { move({a.values, a.loss_scale}, {a.loss_scale}); }
  void operator()(const Sgd& a) const {
    move({a.gradient, a.parameters, a.velocity, a.rule, a.loss_scale}, {a.parameters, a.velocity, a.copy});
  }
  void operator()(const AdvanceLossScale& a) const { move({a.loss_scale}, {a.loss_scale}); }

 private:
  void all(std::initializer_list<Ref> tensors, Access access) const {
    for (const Ref tensor : tensors) {
      if (tensor != no_tensor) { visit_(tensor, access); }
    }
  }
  void move(std::initializer_list<Ref> from, std::initializer_list<Ref> to) const {
    all(from, Access::read);
    all(to, Access::write);
  }
  void normalize(const NormRefs& norm) const {
    all({norm.gamma, norm.beta, norm.mean, norm.inverse_std}, Access::read);
  }

  const std::function<void(Ref, Access)>& visit_;
};

}  // namespace

std::int64_t bytes_of(Element element, Numeric numeric) {
  switch (element) {
    case Element::activation:
      return element_bytes(numeric);
    case Element::fp32:
    case Element::int32:
      return 4;
    case Element::byte:
      return 1;
    case Element::backward_factors:
      return sizeof(BackwardFactors);
    case Element::time:
      return sizeof(std::uint64_t);
    case Element::loss_scale:
      return sizeof(LossScale);
    case Element::sgd_rule:
      return sizeof(SgdRule);
  }
  return 0;
}

void StepProgram::for_each(const std::function<void(const Operation&, int)>& visit) const {
  for (int micro = 0; micro < settings.accumulate_steps; ++micro) {
    for (const Operation& operation : micro_batch) {
      if (runs(operation.when, micro, settings.accumulate_steps)) { visit(operation, micro); }
    }
  }
  for (const Operation& operation : update) { visit(operation, settings.accumulate_steps - 1); }
}

Numeric numeric_of(const StepProgram& program, Ref tensor) {
  return program.at(tensor).element == Element::fp32 ? Numeric::fp32 : program.settings.numeric;
}

std::vector<Reduction> reductions_of(const StepProgram& program) {
  std::vector<Reduction> all;
  for (const Operation& operation : program.micro_batch) {
    const auto* const reduce = std::get_if<AllReduce>(&operation.action);
    if (reduce != nullptr) { all.push_back({reduce->count, numeric_of(program, reduce->values)}); }
  }
  return all;
}

void for_each_access(const Action& action, const std::function<void(Ref, Access)>& visit) {
  std::visit(Accesses(visit), action);
}

std::vector<GraphSpec> graphs_of(const StepProgram& program) {
  std::vector<GraphSpec> specs;
  for (const Operation& operation : program.micro_batch) {
    const auto* const run = std::get_if<RunGraph>(&operation.action);
    if (run != nullptr && std::find(specs.begin(), specs.end(), run->spec) == specs.end()) {
      specs.push_back(run->spec);
    }
  }
  return specs;
}

}  // namespace virtrain::resnet50::cuda
