#include "tests/workloads/resnet50/cuda/interpreter/step_interpreter.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include "tests/workloads/resnet50/cuda/interpreter/plain_storage.h"

namespace virtrain::resnet50::cuda::plain {
namespace {

std::size_t as_index(int value) {
  return static_cast<std::size_t>(value);
}

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
bool passes(const Values& mask, std::size_t i) {
  return mask.empty() || (static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1U) != 0;
}
Values mask_of(const Values& y) {
  Values mask(y.size() / 8);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] > 0) { mask[i / 8] += 1U << (i % 8); }
  }
  return mask;
}

/// One operation; names are those of kernels.h.
class Run {
 public:
  Run(StepInterpreter& memory, const StepProgram& program, int micro)
      : memory_(memory), program_(program), micro_(micro) {}

  void operator()(const RunGraph& a) {
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
        return put(TensorId::dx, convolve_backward_data(s, in(TensorId::dy), in(TensorId::w)));
      case GraphKind::backward_data_add: {
        Values dx = convolve_backward_data(s, in(TensorId::dy), in(TensorId::w));
        const Values other = in(TensorId::other);
        for (std::size_t i = 0; i < dx.size(); ++i) { dx[i] += other[i]; }
        return put(TensorId::dx, dx);
      }
      case GraphKind::backward_data_norm:
        return backward_with_norm(s);
      case GraphKind::backward_weights:
        return put(TensorId::dw, convolve_backward_weights(s, in(TensorId::dy), in(TensorId::x)));
      case GraphKind::norm_backward_weights:
        return put(TensorId::dw, convolve_backward_weights(s, in(TensorId::dy), scaled_and_shifted(s)));
    }
  }

  void operator()(const NormSums& a) {
    const Values x = get(a.x);
    const auto channels = static_cast<std::size_t>(a.shape.channels);
    Values offsets(x);
    for (std::size_t i = 0; i < x.size(); ++i) { offsets[i] -= x[i % channels]; }
    put_row(a.first, sums_of(offsets, channels));
    put_row(a.second, sums_of(product(offsets, offsets), channels));
  }
  void operator()(const NormFinalize& a) {
    const Values sum = get(a.first), square_sum = get(a.second);
    const Values origin = a.origin == no_tensor ? Values(sum.size()) : get(a.origin);
    const Values gamma = get(a.norm.gamma), beta = get(a.norm.beta);
    Values mean = get(a.norm.running_mean), variance = get(a.norm.running_variance);
    Values batch_mean(mean.size()), inverse_std(mean.size()), scale(mean.size()), shift(mean.size());
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const Moments batch =
          moments(sum[c], square_sum[c], origin[c], static_cast<double>(a.shape.rows), norm_epsilon);
      batch_mean[c] = batch.mean;
      inverse_std[c] = batch.inverse_std;
      mean[c] = (1 - norm_momentum) * mean[c] + norm_momentum * batch.mean;
      variance[c] = (1 - norm_momentum) * variance[c] + norm_momentum * batch.unbiased_variance;
      const ForwardFactors factors = forward_factors(
          static_cast<float>(gamma[c]), static_cast<float>(beta[c]), batch.mean, batch.inverse_std);
      scale[c] = factors.scale;
      shift[c] = factors.shift;
    }
    put(a.norm.mean, batch_mean);
    put(a.norm.inverse_std, inverse_std);
    put(a.norm.running_mean, mean);
    put(a.norm.running_variance, variance);
    put(a.scale16, scale);
    put(a.shift16, shift);
  }
  void operator()(const NormApply& a) {
    Values y = normalized(get(a.x), a.norm);
    if (a.shortcut != no_tensor) {
      Values other = get(a.shortcut);
      if (a.shortcut_norm.mean != no_tensor) { other = normalized(other, a.shortcut_norm); }
      for (std::size_t i = 0; i < y.size(); ++i) { y[i] += other[i]; }
    }
    if (a.mask != no_tensor) {
      put(a.mask, mask_of(y));
      for (double& value : y) { value = value < 0 ? 0 : value; }
    }
    put(a.y, y);
  }
  void operator()(const NormBackwardSums& a) {
    const Values dy = masked(a.dy, a.mask);
    const auto channels = static_cast<std::size_t>(a.shape.channels);
    put_row(a.first, sums_of(dy, channels));
    put_row(a.second, sums_of(product(dy, standardized(get(a.x), a.norm)), channels));
  }
  void operator()(const NormBackwardFinalize& a) {
    const Values sum = get(a.first), product_sum = get(a.second);
    const Values gamma = get(a.norm.gamma), mean = get(a.norm.mean), inverse_std = get(a.norm.inverse_std);
    Values gamma_grad(gamma.size()), beta_grad(gamma.size()), factors(3 * gamma.size());
    for (std::size_t c = 0; c < gamma.size(); ++c) {
      gamma_grad[c] = product_sum[c];
      beta_grad[c] = sum[c];
      const BackwardFactors f = backward_factors(static_cast<float>(gamma[c]), static_cast<float>(mean[c]),
                                                 static_cast<float>(inverse_std[c]), product_sum[c], sum[c],
                                                 static_cast<double>(a.shape.rows));
      factors[3 * c] = f.dy;
      factors[3 * c + 1] = f.x;
      factors[3 * c + 2] = f.constant;
    }
    put(a.gamma_grad, gamma_grad);
    put(a.beta_grad, beta_grad);
    put(a.factors, factors);
  }
  void operator()(const NormBackwardApply& a) {
    const Values dy = masked(a.dy, a.mask), x = get(a.x), factors = get(a.factors);
    const auto channels = static_cast<std::size_t>(a.shape.channels);
    Values dx(dy.size());
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const double* const f = &factors[3 * (i % channels)];
      dx[i] = f[0] * dy[i] + f[1] * x[i] + f[2];
    }
    put(a.masked, dy);
    put(a.dx, dx);
  }

  void operator()(const MaxPool& a) {
    const Values x = get(a.x);
    Values y(count(a.y)), position(count(a.position));
    for_windows(a.shape, [&](std::size_t to, std::size_t from, int where) {
      if (position[to] != 0 && !(x[from] > y[to])) { return; }
      y[to] = x[from];
      position[to] = where + 1;  // 0: none yet
    });
    for (double& p : position) { --p; }
    put(a.y, y);
    put(a.position, position);
  }
  void operator()(const MaxPoolBackward& a) {
    const Values dy = get(a.dy), position = get(a.position);
    Values dx(count(a.dx));
    for_windows(a.shape, [&](std::size_t to, std::size_t from, int where) {
      if (position[to] == where) { dx[from] += dy[to]; }
    });
    put(a.dx, dx);
  }
  void operator()(const AveragePool& a) {
    const Values x = get(a.x);
    Values y(count(a.y));
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[pooled(i, a.positions, a.channels)] += x[i] / a.positions;
    }
    put(a.y, y);
  }
  void operator()(const AveragePoolBackward& a) {
    const Values dy = get(a.dy);
    Values dx(count(a.dx));
    for (std::size_t i = 0; i < dx.size(); ++i) {
      dx[i] = dy[pooled(i, a.positions, a.channels)] / a.positions;
    }
    put(a.dx, dx);
  }
  void operator()(const Add& a) {
    Values sum = get(a.a);
    const Values other = get(a.b);
    for (std::size_t i = 0; i < sum.size(); ++i) { sum[i] += other[i]; }
    put(a.sum, sum);
  }
  void operator()(const SoftmaxCrossEntropy& a) {
    const Values logits = get(a.logits), bias = get(a.bias), labels = get(a.labels);
    const auto classes = static_cast<std::size_t>(a.classes);
    const double factor = memory_.loss_scale().scale / static_cast<double>(a.rows);
    Values loss(labels.size()), gradient(logits.size());
    for (std::size_t row = 0; row < labels.size(); ++row) {
      double sum = 0;
      const auto logit = [&](std::size_t c) { return logits[row * classes + c] + bias[c]; };
      for (std::size_t c = 0; c < classes; ++c) { sum += std::exp(logit(c)); }
      const auto label = static_cast<std::size_t>(labels[row]);
      loss[row] = std::log(sum) - logit(label);
      for (std::size_t c = 0; c < classes; ++c) {
        gradient[row * classes + c] = (std::exp(logit(c)) / sum - (c == label ? 1 : 0)) * factor;
      }
    }
    put(a.row_loss, loss);
    put(a.gradient, gradient);
  }
  void operator()(const MeanLoss& a) { put(a.loss, {sums_of(get(a.row_loss), 1)[0] / a.rows}); }
  void operator()(const ColumnSums& a) {
    put(a.sums, sums_of(get(a.values), static_cast<std::size_t>(a.columns)));
  }

  void operator()(const Widen& a) { add_range(a.first, a.count, a.values, a.sum, 0); }
  void operator()(const Accumulate& a) { add_range(a.first, a.count, a.values, a.sum, 1); }
  void operator()(const AllReduce&) { throw std::logic_error("an all-reduce concerns all ranks"); }
  void operator()(const AwaitAllReduce&) {}
  void operator()(const Stamp&) {}
  void operator()(const FindOverflow& a) {
    for (const double value : get(a.values)) {
      if (!std::isfinite(value)) { memory_.loss_scale().overflow = 1; }
    }
  }
  void operator()(const Sgd& a) {
    if (memory_.loss_scale().overflow != 0) { return; }
    const SgdRule rule = memory_.rule();
    const Values gradient = get(a.gradient);
    Values parameters = get(a.parameters), velocity = get(a.velocity);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto parameter = static_cast<float>(parameters[i]), speed = static_cast<float>(velocity[i]);
      sgd_element(parameter, speed,
                  static_cast<float>(gradient[i]) * (rule.gradient_scale / memory_.loss_scale().scale), rule);
      parameters[i] = parameter;
      velocity[i] = speed;
    }
    put(a.parameters, parameters);
    put(a.velocity, velocity);
    put(a.copy, parameters);
  }
  void operator()(const AdvanceLossScale&) { update_loss_scale(memory_.loss_scale()); }

 private:
  Values get(Ref tensor) const { return memory_.get(tensor, micro_); }
  void put(Ref tensor, const Values& values) {
    if (tensor != no_tensor) { memory_.set(tensor, values, micro_); }
  }
  Values in(TensorId id) const { return get(graph_.at(id)); }
  void put(TensorId id, const Values& values) { put(graph_.at(id), values); }
  std::size_t count(Ref tensor) const { return static_cast<std::size_t>(program_.at(tensor).count); }
  /// Partial sums: their first row; readers take no other.
  void put_row(Ref tensor, Values values) {
    values.resize(count(tensor));
    put(tensor, values);
  }

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
  void backward_with_norm(const GraphSpec& s) {
    const auto channels = static_cast<std::size_t>(s.in_channels);
    const NormRefs norm{graph_.at(TensorId::scale),
                        graph_.at(TensorId::shift),
                        graph_.at(TensorId::mean),
                        graph_.at(TensorId::inverse_std),
                        no_tensor,
                        no_tensor};
    const Values x = in(TensorId::x), before_relu = normalized(x, norm);
    Values dz = convolve_backward_data(s, in(TensorId::dy), in(TensorId::w));
    for (std::size_t i = 0; i < dz.size(); ++i) { dz[i] = before_relu[i] > 0 ? dz[i] : 0; }
    put(TensorId::dx, dz);
    put(TensorId::shift_grad, sums_of(dz, channels));
    put(TensorId::scale_grad, sums_of(product(dz, standardized(x, norm)), channels));
  }
  /// (x - mean) / deviation
  Values standardized(Values x, const NormRefs& norm) const {
    const Values mean = get(norm.mean), inverse_std = get(norm.inverse_std);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = (x[i] - mean[i % mean.size()]) * inverse_std[i % mean.size()];
    }
    return x;
  }
  Values normalized(const Values& x, const NormRefs& norm) const {
    const Values gamma = get(norm.gamma), beta = get(norm.beta);
    Values y = standardized(x, norm);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = y[i] * gamma[i % gamma.size()] + beta[i % gamma.size()];
    }
    return y;
  }
  Values masked(Ref dy, Ref mask) const {
    Values values = get(dy);
    const Values bits = mask == no_tensor ? Values{} : get(mask);
    for (std::size_t i = 0; i < values.size(); ++i) { values[i] = passes(bits, i) ? values[i] : 0; }
    return values;
  }

  template <typename Visit>
  void for_windows(const PoolShape& s, const Visit& visit) {
    const int out = s.out_size();
    for (int pixel = 0; pixel < s.batch * out * out; ++pixel) {
      const int n = pixel / (out * out), oy = pixel / out % out, ox = pixel % out;
      for (int where = 0; where < s.kernel * s.kernel; ++where) {
        const int iy = oy * s.stride - s.padding + where / s.kernel;
        const int ix = ox * s.stride - s.padding + where % s.kernel;
        if (iy < 0 || iy >= s.in_size || ix < 0 || ix >= s.in_size) { continue; }
        for (int c = 0; c < s.channels; ++c) {
          visit(as_index(pixel * s.channels + c),
                as_index(((n * s.in_size + iy) * s.in_size + ix) * s.channels + c), where);
        }
      }
    }
  }
  static std::size_t pooled(std::size_t i, int positions, int channels) {
    const auto c = static_cast<std::size_t>(channels);
    return i / (static_cast<std::size_t>(positions) * c) * c + i % c;
  }
  void add_range(std::int64_t first, std::int64_t length, Ref values, Ref sum, int old_weight) {
    const Values gradient = get(values);
    Values total = get(sum);
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + length); ++i) {
      total[i] = (old_weight == 0 ? 0 : total[i]) + gradient[i];
    }
    put(sum, total);
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
  std::visit(Run(*this, program_, micro_batch), operation.action);
}

void run_step(const StepProgram& program, std::vector<StepInterpreter>& ranks) {
  for (StepInterpreter& rank : ranks) { rank.forget(); }
  program.for_each([&](const Operation& operation, int micro_batch) {
    const auto* const reduce = std::get_if<AllReduce>(&operation.action);
    if (reduce == nullptr) {
      for (StepInterpreter& rank : ranks) { rank.run(operation, micro_batch); }
      return;
    }
    std::vector<Values> all;
    all.reserve(ranks.size());
    for (const StepInterpreter& rank : ranks) { all.push_back(rank.get(reduce->values)); }
    const auto end = static_cast<std::size_t>(reduce->first + reduce->count);
    for (auto i = static_cast<std::size_t>(reduce->first); i < end; ++i) {
      double sum = 0;
      for (const Values& values : all) { sum += values[i]; }
      for (Values& values : all) { values[i] = sum / static_cast<double>(ranks.size()); }
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) { ranks[r].set(reduce->values, all[r]); }
  });
}

}  // namespace virtrain::resnet50::cuda::plain
