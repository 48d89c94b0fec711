#include "tests/workloads/resnet50/cuda/interpreter/plain_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tests/workloads/resnet50/cuda/interpreter/plain_storage.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50::cuda::plain {
namespace {

using Values = std::vector<double>;

std::size_t as_index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}
std::size_t count_of(const RowShape& shape) {
  return as_index(shape.rows * shape.channels);
}
std::size_t count_of(const PoolShape& shape, int size) {
  return as_index(static_cast<std::int64_t>(shape.batch) * size * size * shape.channels);
}

Values read(Numeric numeric, const void* from, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = load_activation(numeric, static_cast<const std::byte*>(from), i);
  }
  return values;
}
void write(Numeric numeric, void* to, const Values& values) {
  if (to == nullptr) { return; }
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_activation(numeric, static_cast<std::byte*>(to), i, values[i]);
  }
}

/// As it is stored.
double rounded(Numeric numeric, double value) {
  std::array<std::byte, sizeof(float)> stored{};
  store_activation(numeric, stored.data(), 0, value);
  return load_activation(numeric, stored.data(), 0);
}

Values sums_of(const Values& values, std::size_t channels) {
  Values sums(channels);
  for (std::size_t i = 0; i < values.size(); ++i) { sums[i % channels] += values[i]; }
  return sums;
}
Values product(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) { a[i] *= b[i]; }
  return a;
}
Values standardized(Values x, const NormVectors& norm, std::size_t channels) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - norm.mean[i % channels]) * norm.inverse_std[i % channels];
  }
  return x;
}
Values normalized(const Values& x, const NormVectors& norm, std::size_t channels) {
  Values y = standardized(x, norm, channels);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = y[i] * norm.gamma[i % channels] + norm.beta[i % channels];
  }
  return y;
}
void mask_out(Values& values, const std::uint8_t* mask) {
  for (std::size_t i = 0; i < values.size() && mask != nullptr; ++i) {
    if ((mask[i / 8] >> (i % 8) & 1) == 0) { values[i] = 0; }
  }
}

/// visit(output, input, position in the window)
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
/// The gradient of the max-pool's input.
Values unpooled(Numeric numeric, const void* dy, const std::uint8_t* position, const PoolShape& shape) {
  const Values gradient = read(numeric, dy, count_of(shape, shape.out_size()));
  Values dx(count_of(shape, shape.in_size));
  for_windows(shape, [&](std::size_t to, std::size_t from, int where) {
    if (position[to] == where) { dx[from] += gradient[to]; }
  });
  return dx;
}
RowShape rows_of(const PoolShape& s) {
  return {static_cast<std::int64_t>(s.batch) * s.in_size * s.in_size, s.channels};
}

/// Of the distances to `origin`, channel by channel.
void finish_forward(Numeric numeric, const Values& sums, const Values& square_sums, const Values& origin,
                    const RowShape& shape, const NormVectors& norm, void* scale16, void* shift16) {
  const std::size_t channels = sums.size();
  Values scale(channels), shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const Moments batch =
        moments(sums[c], square_sums[c], origin[c], static_cast<double>(shape.rows), norm_epsilon);
    norm.mean[c] = batch.mean;
    norm.inverse_std[c] = batch.inverse_std;
    const auto mix = [](float& old, float value) {
      old = static_cast<float>((1 - norm_momentum) * old + norm_momentum * value);
    };
    mix(norm.running_mean[c], batch.mean);
    mix(norm.running_variance[c], batch.unbiased_variance);
    const ForwardFactors factors =
        forward_factors(norm.gamma[c], norm.beta[c], batch.mean, batch.inverse_std);
    scale[c] = rounded(numeric, factors.scale);
    shift[c] = narrow_factors(static_cast<float>(scale[c]), norm.beta[c], batch.mean).shift;
  }
  write(numeric, scale16, scale);
  write(numeric, shift16, shift);
}
void finish_backward(const Values& sums, const Values& product_sums, const RowShape& shape,
                     const NormVectors& norm, const NormGradients& out) {
  for (std::size_t c = 0; c < sums.size(); ++c) {
    out.beta[c] = static_cast<float>(sums[c]);
    out.gamma[c] = static_cast<float>(product_sums[c]);
    out.factors[c] = backward_factors(norm.gamma[c], norm.mean[c], norm.inverse_std[c], product_sums[c],
                                      sums[c], static_cast<double>(shape.rows));
  }
}
void backward_sums(Numeric numeric, const Values& dz, const void* x, const RowShape& shape,
                   const NormVectors& norm, const NormGradients& out) {
  const std::size_t channels = as_index(shape.channels);
  const Values standard = standardized(read(numeric, x, count_of(shape)), norm, channels);
  finish_backward(sums_of(dz, channels), sums_of(product(dz, standard), channels), shape, norm, out);
}
void backward_apply(Numeric numeric, const Values& dz, const void* x, const RowShape& shape,
                    const BackwardFactors* factors, void* dx) {
  Values result = read(numeric, x, count_of(shape));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const BackwardFactors& f = factors[i % as_index(shape.channels)];
    result[i] = f.dy * dz[i] + f.x * result[i] + f.constant;
  }
  write(numeric, dx, result);
}

void norm_sums(Numeric numeric, const void* x, const RowShape& shape, const PartialSums& /*partial*/,
               const NormVectors& vectors, void* scale16, void* shift16, Sweep /*sweep*/, Stream /*stream*/) {
  const std::size_t channels = as_index(shape.channels);
  Values offsets = read(numeric, x, count_of(shape));
  const Values origin(offsets.begin(), offsets.begin() + shape.channels);
  for (std::size_t i = 0; i < offsets.size(); ++i) { offsets[i] -= origin[i % channels]; }
  finish_forward(numeric, sums_of(offsets, channels), sums_of(product(offsets, offsets), channels), origin,
                 shape, vectors, scale16, shift16);
}

void norm_finalize(Numeric numeric, const float* sum, const float* square_sum, const RowShape& shape,
                   const NormVectors& vectors, void* scale16, void* shift16, Stream /*stream*/) {
  const std::size_t channels = as_index(shape.channels);
  finish_forward(numeric, {sum, sum + channels}, {square_sum, square_sum + channels}, Values(channels), shape,
                 vectors, scale16, shift16);
}

void norm_apply(Numeric numeric, const void* x, const RowShape& shape, const NormVectors& vectors,
                const Shortcut& shortcut, void* y, std::uint8_t* mask, Sweep /*sweep*/, Stream /*stream*/) {
  const std::size_t channels = as_index(shape.channels);
  Values values = normalized(read(numeric, x, count_of(shape)), vectors, channels);
  if (shortcut.values != nullptr) {
    Values other = read(numeric, shortcut.values, values.size());
    if (shortcut.norm != nullptr) { other = normalized(other, *shortcut.norm, channels); }
    for (std::size_t i = 0; i < values.size(); ++i) { values[i] += other[i]; }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned bit = values[i] > 0 ? 1U << (i % 8) : 0U;
    if (mask != nullptr) { mask[i / 8] = static_cast<std::uint8_t>((i % 8 == 0 ? 0U : mask[i / 8]) | bit); }
    if (values[i] < 0) { values[i] = 0; }
  }
  write(numeric, y, values);
}

void norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                        const RowShape& shape, const NormVectors& vectors, const PartialSums& /*partial*/,
                        const NormGradients& out, Sweep /*sweep*/, Stream /*stream*/) {
  Values dz = read(numeric, dy, count_of(shape));
  mask_out(dz, mask);
  backward_sums(numeric, dz, x, shape, vectors, out);
}

void norm_backward_apply_sums(Numeric numeric, const void* dy, const void* x, const RowShape& shape,
                              const NormVectors& vectors, const float* sum, const float* product_sum,
                              float* gamma_grad, float* beta_grad, void* dx, Sweep /*sweep*/,
                              Stream /*stream*/) {
  const std::size_t channels = as_index(shape.channels);
  std::vector<BackwardFactors> factors(channels);
  finish_backward({sum, sum + channels}, {product_sum, product_sum + channels}, shape, vectors,
                  {gamma_grad, beta_grad, factors.data()});
  backward_apply(numeric, read(numeric, dy, count_of(shape)), x, shape, factors.data(), dx);
}

void norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* mask, const void* x,
                         const RowShape& shape, const BackwardFactors* factors, void* dx, void* masked,
                         Sweep /*sweep*/, Stream /*stream*/) {
  Values dz = read(numeric, dy, count_of(shape));
  mask_out(dz, mask);
  write(numeric, masked, dz);
  backward_apply(numeric, dz, x, shape, factors, dx);
}

void norm_max_pool(Numeric numeric, const void* x, const PoolShape& shape, const NormVectors& vectors,
                   void* y, std::uint8_t* position, Sweep /*sweep*/, Stream /*stream*/) {
  const Values values =
      normalized(read(numeric, x, count_of(shape, shape.in_size)), vectors, as_index(shape.channels));
  Values largest(count_of(shape, shape.out_size()));
  std::fill(position, position + largest.size(), no_position);
  for_windows(shape, [&](std::size_t to, std::size_t from, int where) {
    if (!(values[from] > largest[to])) { return; }
    largest[to] = values[from];
    position[to] = static_cast<std::uint8_t>(where);
  });
  write(numeric, y, largest);
}

void pooled_norm_backward_sums(Numeric numeric, const void* dy, const std::uint8_t* position, const void* x,
                               const PoolShape& shape, const NormVectors& vectors,
                               const PartialSums& /*partial*/, const NormGradients& out, Sweep /*sweep*/,
                               Stream /*stream*/) {
  backward_sums(numeric, unpooled(numeric, dy, position, shape), x, rows_of(shape), vectors, out);
}

void pooled_norm_backward_apply(Numeric numeric, const void* dy, const std::uint8_t* position, const void* x,
                                const PoolShape& shape, const BackwardFactors* factors, void* dx,
                                Sweep /*sweep*/, Stream /*stream*/) {
  backward_apply(numeric, unpooled(numeric, dy, position, shape), x, rows_of(shape), factors, dx);
}

void average_pool(Numeric numeric, const void* x, int batch, int positions, int channels, void* y,
                  Stream /*stream*/) {
  const std::size_t image = as_index(std::int64_t{positions} * channels), row = as_index(channels);
  const Values values = read(numeric, x, as_index(batch) * image);
  Values means(as_index(batch) * row);
  for (std::size_t i = 0; i < values.size(); ++i) {
    means[i / image * row + i % row] += values[i] / positions;
  }
  write(numeric, y, means);
}
void average_pool_backward(Numeric numeric, const void* dy, int batch, int positions, int channels, void* dx,
                           Stream /*stream*/) {
  const std::size_t image = as_index(std::int64_t{positions} * channels), row = as_index(channels);
  const Values gradient = read(numeric, dy, as_index(batch) * row);
  Values values(as_index(batch) * image);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = gradient[i / image * row + i % row] / positions;
  }
  write(numeric, dx, values);
}

void softmax_cross_entropy(Numeric numeric, const void* logits, const float* bias, const std::int32_t* labels,
                           int rows, int classes, int ranks, const LossScale* loss_scale, float* row_loss,
                           void* gradient, Stream /*stream*/) {
  Values x = read(numeric, logits, as_index(std::int64_t{rows} * classes));
  const double factor = loss_scale->scale / (static_cast<double>(rows) * ranks);
  for (int row = 0; row < rows; ++row) {
    double* const values = &x[as_index(std::int64_t{row} * classes)];
    double sum = 0;
    for (int c = 0; c < classes; ++c) { sum += std::exp(values[c] += bias[c]); }
    row_loss[row] = static_cast<float>(std::log(sum) - values[labels[row]]);
    for (int c = 0; c < classes; ++c) {
      values[c] = (std::exp(values[c]) / sum - (c == labels[row] ? 1 : 0)) * factor;
    }
  }
  write(numeric, gradient, x);
}
void mean_loss(const float* row_loss, int rows, float* loss, Stream /*stream*/) {
  *loss = static_cast<float>(sums_of({row_loss, row_loss + rows}, 1)[0] / rows);
}
void column_sums(Numeric numeric, const void* values, int rows, int columns, float* sums, Stream /*stream*/) {
  write(Numeric::fp32, sums,
        sums_of(read(numeric, values, as_index(std::int64_t{rows} * columns)), as_index(columns)));
}

void sgd(Numeric gradient_numeric, const void* gradient, std::int64_t count, float* parameters,
         float* velocity, Numeric copy_numeric, void* copy, const SgdRule* rule, const LossScale* loss_scale,
         Stream /*stream*/) {
  if (loss_scale->overflow != 0) { return; }
  const Values gradients = read(gradient_numeric, gradient, as_index(count));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    sgd_element(parameters[i], velocity[i],
                static_cast<float>(gradients[i]) * (rule->gradient_scale / loss_scale->scale), *rule);
  }
  write(copy_numeric, copy, {parameters, parameters + count});
}
void find_overflow(Numeric numeric, const void* values, std::int64_t count, LossScale* loss_scale,
                   Stream /*stream*/) {
  for (const double value : read(numeric, values, as_index(count))) {
    if (!std::isfinite(value)) { loss_scale->overflow = 1; }
  }
}
void advance_loss_scale(LossScale* loss_scale, Stream /*stream*/) {
  update_loss_scale(*loss_scale);
}

void add(Numeric numeric, const void* a, const void* b, std::int64_t count, void* sum, Stream /*stream*/) {
  Values total = read(numeric, a, as_index(count));
  const Values other = read(numeric, b, as_index(count));
  for (std::size_t i = 0; i < total.size(); ++i) { total[i] += other[i]; }
  write(numeric, sum, total);
}
void accumulate(Numeric numeric, const void* values, std::int64_t count, float* sum, Stream /*stream*/) {
  const Values more = read(numeric, values, as_index(count));
  for (std::size_t i = 0; i < more.size(); ++i) { sum[i] = static_cast<float>(sum[i] + more[i]); }
}
void stamp(std::uint64_t* /*time*/, Stream /*stream*/) {}
void widen(Numeric numeric, const void* values, std::int64_t count, float* out, Stream /*stream*/) {
  write(Numeric::fp32, out, read(numeric, values, as_index(count)));
}

}  // namespace

const Kernels& plain_kernels() {
  static constexpr Kernels all{norm_sums,
                               norm_finalize,
                               norm_apply,
                               norm_backward_sums,
                               norm_backward_apply,
                               norm_backward_apply_sums,
                               norm_max_pool,
                               pooled_norm_backward_sums,
                               pooled_norm_backward_apply,
                               average_pool,
                               average_pool_backward,
                               softmax_cross_entropy,
                               mean_loss,
                               column_sums,
                               sgd,
                               find_overflow,
                               advance_loss_scale,
                               add,
                               accumulate,
                               stamp,
                               widen};
  return all;
}

}  // namespace virtrain::resnet50::cuda::plain
