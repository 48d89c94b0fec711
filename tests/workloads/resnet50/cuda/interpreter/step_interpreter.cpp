#include "tests/workloads/resnet50/cuda/interpreter/step_interpreter.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include "tests/workloads/resnet50/cuda/interpreter/plain_kernels.h"
#include "tests/workloads/resnet50/cuda/interpreter/plain_storage.h"

namespace virtrain::resnet50::cuda::plain {
namespace {

Values sums_of(const Values& values, std::size_t channels) {
  Values sums(channels);
  for (std::size_t i = 0; i < values.size(); ++i) { sums[i % channels] += values[i]; }
  return sums;
}
Values product(const Values& a, const Values& b) {
  Values result(a);
  for (std::size_t i = 0; i < a.size(); ++i) { result[i] *= b[i]; }
  return result;
}
/// One operation: our kernels are those of plain_kernels.cpp, cuDNN's graphs are here.
class Run : public Runner {
 public:
  Run(StepInterpreter& memory, const StepProgram& program, int micro)
      : memory_(memory), program_(program), micro_(micro) {}

  void run(const RunGraph& a) override {
    graph_.clear();
    for (const auto& [id, tensor] : a.tensors) { graph_[id] = tensor; }
    const GraphSpec& s = a.spec;
    switch (s.kind) {
      case GraphKind::convolution:
        return put(TensorId::y, convolve(s, in(TensorId::x), in(TensorId::w)));
      case GraphKind::convolution_statistics:
        return forward_with_sums(s, in(TensorId::x));
      case GraphKind::norm_convolution_statistics:
        return forward_with_sums(s, scaled_and_shifted(s));
      case GraphKind::backward_data:
        return put(TensorId::dx, backward_data(s));
      case GraphKind::backward_data_add:
        return put(TensorId::dx, backward_data_add(s));
      case GraphKind::backward_data_add_mask: {
        Values dx = backward_data_add(s);
        const Values mask = in(TensorId::mask);
        for (std::size_t i = 0; i < dx.size(); ++i) {
          dx[i] = (static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1U) != 0 ? dx[i] : 0;
        }
        return put(TensorId::dx, dx);
      }
      case GraphKind::backward_data_tail:
      case GraphKind::backward_data_tail_norm:
        return backward_with_tail(s);
      case GraphKind::backward_data_norm:
        return put_with_sums(backward_data(s), normalized(main_norm()), {main_norm()});
      case GraphKind::backward_weights:
        return put(TensorId::dw, convolve_backward_weights(s, in(TensorId::dy), in(TensorId::x)));
      case GraphKind::norm_backward_weights:
        return put(TensorId::dw, convolve_backward_weights(s, in(TensorId::dy), scaled_and_shifted(s)));
    }
  }
  void start(const AllReduce& /*reduction*/) override {
    throw std::logic_error("an all-reduce concerns all ranks");
  }
  void await_reductions() override {}
  Numeric numeric() const override { return program_.settings.numeric; }
  Stream stream() const override { return nullptr; }
  const Kernels& kernels() const override { return plain_kernels(); }

 private:
  Values get(Ref tensor) const { return memory_.get(tensor, micro_); }
  void put(Ref tensor, const Values& values) {
    if (tensor != no_tensor) { memory_.set(tensor, values, micro_); }
  }
  Values in(TensorId id) const { return get(graph_.at(id)); }
  void put(TensorId id, const Values& values) { put(graph_.at(id), values); }
  std::byte* place(Ref tensor) const override { return memory_.at(tensor, micro_); }

  Values scaled_and_shifted(const GraphSpec& s) const {
    Values x = in(TensorId::x);
    const Values scale = in(TensorId::scale), shift = in(TensorId::shift);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % static_cast<std::size_t>(s.in_channels);
      x[i] = std::max(0.0, scale[c] * x[i] + shift[c]);
    }
    return x;
  }
  void forward_with_sums(const GraphSpec& s, const Values& x) {
    put(TensorId::y, convolve(s, x, in(TensorId::w)));
    const Values y = in(TensorId::y);
    put(TensorId::sum, sums_of(y, static_cast<std::size_t>(s.out_channels)));
    put(TensorId::square_sum, sums_of(product(y, y), static_cast<std::size_t>(s.out_channels)));
  }
  Values backward_data(const GraphSpec& s) const {
    return convolve_backward_data(s, in(TensorId::dy), in(TensorId::w));
  }
  Values backward_data_add(const GraphSpec& s) const {
    Values dx = backward_data(s);
    const Values other = in(TensorId::other);
    for (std::size_t i = 0; i < dx.size(); ++i) { dx[i] += other[i]; }
    return dx;
  }
  /// A norm that a graph computes again: what goes in, its vectors, where its sums go.
  struct Norm {
    TensorId x, mean, inverse_std, scale, shift, scale_grad, shift_grad;
  };
  static Norm main_norm() {
    return {TensorId::x,     TensorId::mean,       TensorId::inverse_std, TensorId::scale,
            TensorId::shift, TensorId::scale_grad, TensorId::shift_grad};
  }
  static Norm shortcut_norm() {
    return {TensorId::shortcut,           TensorId::shortcut_mean,  TensorId::shortcut_inverse_std,
            TensorId::shortcut_scale,     TensorId::shortcut_shift, TensorId::shortcut_scale_grad,
            TensorId::shortcut_shift_grad};
  }
  void backward_with_tail(const GraphSpec& s) {
    const bool two = s.kind == GraphKind::backward_data_tail_norm;
    Values before_relu = normalized(main_norm());
    const Values other = two ? normalized(shortcut_norm()) : in(TensorId::shortcut);
    for (std::size_t i = 0; i < other.size(); ++i) { before_relu[i] += other[i]; }
    std::vector<Norm> norms{main_norm()};
    if (two) { norms.push_back(shortcut_norm()); }
    put_with_sums(backward_data_add(s), before_relu, norms);
  }
  /// What passes the ReLU, and each norm's sums over it.
  void put_with_sums(Values dz, const Values& before_relu, const std::vector<Norm>& norms) {
    for (std::size_t i = 0; i < dz.size(); ++i) { dz[i] = before_relu[i] > 0 ? dz[i] : 0; }
    put(TensorId::dx, dz);
    for (const Norm& norm : norms) {
      const std::size_t channels = in(norm.mean).size();
      put(norm.shift_grad, sums_of(dz, channels));
      put(norm.scale_grad, sums_of(product(dz, standardized(norm)), channels));
    }
  }
  /// (x - mean) / deviation
  Values standardized(const Norm& norm) const {
    const Values mean = in(norm.mean), inverse_std = in(norm.inverse_std);
    Values x = in(norm.x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean[i % mean.size()]) * inverse_std[i % mean.size()];
    }
    return x;
  }
  Values normalized(const Norm& norm) const {
    const Values scale = in(norm.scale), shift = in(norm.shift);
    Values y = standardized(norm);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = y[i] * scale[i % scale.size()] + shift[i % scale.size()];
    }
    return y;
  }

  StepInterpreter& memory_;
  const StepProgram& program_;
  int micro_;
  std::map<TensorId, Ref> graph_;
};

}  // namespace

StepInterpreter::StepInterpreter(const StepProgram& program, const MemoryPlan& plan)
    : program_(program), plan_(plan), arena_(static_cast<std::size_t>(plan.peak_bytes)) {
  loss_scale() = LossScale{};
}

void StepInterpreter::forget() {
  std::fill(arena_.begin() + plan_.persistent_bytes, arena_.end(), std::byte{0xff});
}

const std::byte* StepInterpreter::at(Ref tensor, int micro_batch) const {
  const ProgramTensor& t = program_.at(tensor);
  std::int64_t offset = plan_.offset[static_cast<std::size_t>(tensor)];
  if (t.per_micro_batch) {
    offset += t.count / program_.settings.accumulate_steps * micro_batch *
              bytes_of(t.element, program_.settings.numeric);
  }
  return arena_.data() + offset;
}
std::byte* StepInterpreter::at(Ref tensor, int micro_batch) {
  return const_cast<std::byte*>(std::as_const(*this).at(tensor, micro_batch));
}

namespace {
std::size_t visible_count(const StepProgram& program, Ref tensor) {
  const ProgramTensor& t = program.at(tensor);
  const std::int64_t parts = t.per_micro_batch ? program.settings.accumulate_steps : 1;
  const std::int64_t numbers = t.element == Element::backward_factors ? 3 : 1;
  return static_cast<std::size_t>(t.count / parts * numbers);
}
}  // namespace

Values StepInterpreter::get(Ref tensor, int micro_batch) const {
  const std::byte* const from = at(tensor, micro_batch);
  Values values(visible_count(program_, tensor));
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (program_.at(tensor).element) {
      case Element::activation:
        values[i] = load_activation(program_.settings.numeric, from, i);
        break;
      case Element::int32:
        values[i] = load<std::int32_t>(from, i);
        break;
      case Element::byte:
        values[i] = load<std::uint8_t>(from, i);
        break;
      default:
        values[i] = load<float>(from, i);
    }
  }
  return values;
}

void StepInterpreter::set(Ref tensor, const Values& values, int micro_batch) {
  std::byte* const to = at(tensor, micro_batch);
  if (values.size() != visible_count(program_, tensor)) {
    throw std::logic_error("tensor '" + program_.at(tensor).name + "' has another number of elements");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (program_.at(tensor).element) {
      case Element::activation:
        store_activation(program_.settings.numeric, to, i, values[i]);
        break;
      case Element::int32:
        store(to, i, static_cast<std::int32_t>(values[i]));
        break;
      case Element::byte:
        store(to, i, static_cast<std::uint8_t>(values[i]));
        break;
      default:
        store(to, i, static_cast<float>(values[i]));
    }
  }
}

void StepInterpreter::run(const Operation& operation, int micro_batch) {
  Run runner(*this, program_, micro_batch);
  operation.launch(runner, operation.sweep);
}

void run_step(const StepProgram& program, std::vector<StepInterpreter>& ranks) {
  for (StepInterpreter& rank : ranks) { rank.forget(); }
  program.for_each([&](const Operation& operation, int micro_batch) {
    if (!operation.reduction) {
      for (StepInterpreter& rank : ranks) { rank.run(operation, micro_batch); }
      return;
    }
    const AllReduce& reduce = *operation.reduction;
    std::vector<Values> all;
    all.reserve(ranks.size());
    for (const StepInterpreter& rank : ranks) { all.push_back(rank.get(reduce.values)); }
    const auto end = static_cast<std::size_t>(reduce.first + reduce.count);
    for (auto i = static_cast<std::size_t>(reduce.first); i < end; ++i) {
      double sum = 0;
      for (const Values& values : all) { sum += values[i]; }
      for (Values& values : all) { values[i] = sum; }
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) { ranks[r].set(reduce.values, all[r]); }
  });
}

}  // namespace virtrain::resnet50::cuda::plain
