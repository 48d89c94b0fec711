#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/kernels/kernel_tensors.h"
#include "workloads/resnet50/model.h"

// The normalization against a plain fp64 version on inputs that its precision holds exactly: on a GPU, and
// emulated.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

/// One normalization with a shortcut, forward and backward, in fp64.
struct PlainNorm {
  std::int64_t rows;
  int channels;
  Values mean, inverse_std, variance;

  PlainNorm(const Values& x, std::int64_t rows_, int channels_) : rows(rows_), channels(channels_) {
    for (int c = 0; c < channels; ++c) {
      double sum = 0, square_sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) { sum += x[at(r, c)]; }
      for (std::int64_t r = 0; r < rows; ++r) {
        square_sum += std::pow(x[at(r, c)] - sum / static_cast<double>(rows), 2);
      }
      mean.push_back(sum / static_cast<double>(rows));
      variance.push_back(square_sum / static_cast<double>(rows));
      inverse_std.push_back(1 / std::sqrt(variance.back() + norm_epsilon));
    }
  }
  std::size_t at(std::int64_t row, int channel) const {
    return static_cast<std::size_t>(row * channels + channel);
  }
};

/// Rows and channels: one block of threads, and several in each direction, none of them full.
auto shapes() {
  using Shape = std::tuple<std::int64_t, int>;
  return Catch::Generators::filter(
      [](const Shape& shape) { return affordable(std::get<0>(shape) * std::get<1>(shape)); },
      Catch::Generators::table<std::int64_t, int>(
          {{1, 8}, {7, 24}, {245, 64}, {1601, 40}, {300, 520}, {3137, 2048}, {2'100'001, 8}}));
}

/// The vectors of one normalization on the GPU.
struct DeviceNorm {
  Tensor gamma, beta, mean, inverse_std, running_mean, running_variance;

  explicit DeviceNorm(int channels, unsigned seed = 3)
      : gamma(vector_of(random_values(Numeric::fp32, channels, seed))),
        beta(vector_of(random_values(Numeric::fp32, channels, seed + 1))),
        mean(vector_of(random_values(Numeric::fp32, channels, seed + 2))),
        inverse_std(vector_of(random_values(Numeric::fp32, channels, seed + 3, 9))),
        running_mean(vector_of(Values(static_cast<std::size_t>(channels), 0))),
        running_variance(vector_of(Values(static_cast<std::size_t>(channels), 1))) {}
  NormVectors vectors() const {
    return {gamma.as<float>(),       beta.as<float>(),         mean.as<float>(),
            inverse_std.as<float>(), running_mean.as<float>(), running_variance.as<float>()};
  }
};

/// Scale and shift of each channel.
struct Line {
  Values scale, shift;
};
Line line_of(const DeviceNorm& norm) {
  Line line{norm.gamma.values(), norm.beta.values()};
  const Values mean = norm.mean.values(), inverse_std = norm.inverse_std.values();
  for (std::size_t c = 0; c < mean.size(); ++c) {
    line.scale[c] *= inverse_std[c];
    line.shift[c] -= mean[c] * line.scale[c];
  }
  return line;
}

/// Room for partial sums; its tickets are zeros before and after each pass.
struct Room {
  Tensor first{Numeric::fp32, std::size_t{most_partial_blocks} * channels_of_group};
  Tensor second{Numeric::fp32, std::size_t{most_partial_blocks} * channels_of_group};
  Buffer tickets{most_channel_groups * tickets_of_group * sizeof(int)};

  Room() { tickets.set(std::vector<int>(most_channel_groups * tickets_of_group)); }
  PartialSums partial() const { return {first.as<float>(), second.as<float>(), tickets.as<int>()}; }
  bool is_clean() const {
    const std::vector<int> all = tickets.get<int>();
    return std::all_of(all.begin(), all.end(), [](int ticket) { return ticket == 0; });
  }
};

/// Either order gives the same.
Sweep any_sweep() {
  return GENERATE(Sweep::ascending, Sweep::descending);
}

Values column_sums_of(const Values& values, std::size_t columns) {
  Values sums(columns);
  for (std::size_t i = 0; i < values.size(); ++i) { sums[i % columns] += values[i]; }
  return sums;
}

}  // namespace

TEST_CASE("normalization forward: statistics, shortcut, ReLU, mask") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const auto [rows, channels] = GENERATE(shapes());
  CAPTURE(to_string(numeric), rows, channels);
  const RowShape shape{rows, channels};
  const std::int64_t count = rows * channels;
  const Values x = random_values(numeric, count, 1, 30), other = random_values(numeric, count, 2);
  const Values gamma = random_values(Numeric::fp32, channels, 3),
               beta = random_values(Numeric::fp32, channels, 4);
  const PlainNorm plain(x, rows, channels);
  Values expected(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int c = 0; c < channels; ++c) {
      const std::size_t i = plain.at(r, c);
      const double norm = (x[i] - plain.mean[c]) * plain.inverse_std[c] * gamma[c] + beta[c];
      expected[i] = std::max(0.0, norm + other[i]);
    }
  }

  const Tensor device_x(numeric, x), device_other(numeric, other), y(numeric, x.size());
  const Tensor device_gamma = vector_of(gamma), device_beta = vector_of(beta);
  const Tensor mean = vector_of(gamma), inverse_std = vector_of(gamma);
  const Tensor running_mean = vector_of(Values(gamma.size(), 0)),
               running_variance = vector_of(Values(gamma.size(), 1));
  const NormVectors vectors{device_gamma.as<float>(), device_beta.as<float>(),  mean.as<float>(),
                            inverse_std.as<float>(),  running_mean.as<float>(), running_variance.as<float>()};
  const Room room;
  const Buffer mask(x.size() / pack_size);
  const Sweep sweep = rows == 245 ? Sweep::descending : Sweep::ascending;
  norm_sums(numeric, device_x.data(), shape, room.partial(), vectors, nullptr, nullptr, sweep, nullptr);
  norm_apply(numeric, device_x.data(), shape, vectors, {device_other.data(), nullptr}, y.data(),
             mask.as<std::uint8_t>(), sweep, nullptr);
  check(cudaDeviceSynchronize());
  CHECK(room.is_clean());
  CHECK(distance(mean.values(), plain.mean) < 1e-5);
  const Values actual = y.values();
  CHECK(distance(actual, expected) < (rows == 1 ? 1e-2 : tolerance(numeric)));
  Values running(plain.variance);
  for (double& value : running) {
    value = 0.9 + 0.1 * value * static_cast<double>(rows) / std::max(1.0, static_cast<double>(rows) - 1);
  }
  CHECK(distance(running_variance.values(), running) < 1e-5);
  const std::vector<std::uint8_t> bits = mask.get<std::uint8_t>();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if ((bits[i / 8] >> (i % 8) & 1) != (actual[i] > 0) && expected[i] > 1e-6) {
      FAIL("mask differs at element " << i);
    }
  }
}

TEST_CASE("a mean of many deviations costs the factors of a 16-bit graph no more than storing x does") {
  require_gpu();
  const bool from_graph = GENERATE(false, true);  // sums of x itself in fp32, as cuDNN writes them
  const int deviations = GENERATE(0, 3, 30, 100);
  CAPTURE(from_graph, deviations);
  constexpr std::int64_t rows = 1601;
  constexpr int channels = 40;
  const Numeric numeric = Numeric::fp16;
  const RowShape shape{rows, channels};
  // As in trained networks: deviations far from one, means of many of them on either side, large factors.
  Values x = random_values(numeric, rows * channels, 1), gamma(channels), beta(channels);
  const auto channel_of = [](std::size_t i) { return i % channels; };
  const auto deviation = [](std::size_t c) { return std::pow(2.0, static_cast<double>(c % 7) - 3); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channel_of(i);
    x[i] = rounded(numeric, deviation(c) * (x[i] + (c % 2 == 0 ? deviations : -deviations)));
  }
  for (std::size_t c = 0; c < gamma.size(); ++c) {
    gamma[c] = rounded(Numeric::fp32, 0.3 + 0.11 * static_cast<double>(c));
    beta[c] = rounded(Numeric::fp32, static_cast<double>(c % 5) - 2.3);
  }
  const PlainNorm plain(x, rows, channels);
  const Tensor device_x(numeric, x), device_gamma = vector_of(gamma), device_beta = vector_of(beta);
  const DeviceNorm norm(channels);
  NormVectors vectors = norm.vectors();
  vectors.gamma = device_gamma.as<float>();
  vectors.beta = device_beta.as<float>();
  const Tensor scale(numeric, channels), shift(numeric, channels);
  const Room room;
  if (from_graph) {
    std::vector<float> sums(channels), squares(channels);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto value = static_cast<float>(x[i]);
      sums[channel_of(i)] += value;
      squares[channel_of(i)] += value * value;
    }
    const Tensor sum = vector_of({sums.begin(), sums.end()}),
                 square_sum = vector_of({squares.begin(), squares.end()});
    norm_finalize(numeric, sum.as<float>(), square_sum.as<float>(), shape, vectors, scale.data(),
                  shift.data(), nullptr);
  } else {
    norm_sums(numeric, device_x.data(), shape, room.partial(), vectors, scale.data(), shift.data(),
              Sweep::ascending, nullptr);
  }
  check(cudaDeviceSynchronize());
  const Values scales = scale.values(), shifts = shift.values();
  double worst_mean = 0, worst = 0;  // in roundings of the largest x to fp16
  Values error(channels);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channel_of(i);
    const double factor = gamma[c] * plain.inverse_std[c];
    const double exact = (x[i] - plain.mean[c]) * factor + beta[c];
    const double off = scales[c] * x[i] + shifts[c] - exact;
    const double rounding =
        0x1p-11 * factor * (std::abs(plain.mean[c]) + 4 * deviation(c) + std::abs(beta[c] / factor));
    error[c] += off / static_cast<double>(rows) / rounding;
    worst = std::max(worst, std::abs(off) / rounding);
  }
  for (const double each : error) { worst_mean = std::max(worst_mean, std::abs(each)); }
  CAPTURE(worst, worst_mean);
  CHECK(worst_mean < 1.1);  // the shift is rounded, and nothing else is left in all elements of a channel
  CHECK(worst < 2.5);
}

TEST_CASE("normalization backward: gradients of gamma, beta and the input, and the shortcut's") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const auto [rows, channels] = GENERATE(shapes());
  if (rows == 1) {
    return;  // all gradients of the input are rounding errors
  }
  const bool with_relu = GENERATE(true, false);  // else no mask, and no masked gradient to hand on
  CAPTURE(to_string(numeric), rows, channels, with_relu);
  const RowShape shape{rows, channels};
  const Values x = random_values(numeric, rows * channels, 1, 3),
               dy = random_values(numeric, rows * channels, 2);
  const Values gamma = random_values(Numeric::fp32, channels, 3);
  std::vector<std::uint8_t> bits(x.size() / pack_size);
  std::mt19937 generator(9);
  for (std::uint8_t& byte : bits) { byte = with_relu ? static_cast<std::uint8_t>(generator()) : 0xff; }
  const PlainNorm plain(x, rows, channels);
  Values gamma_grad(gamma.size()), beta_grad(gamma.size()), dz(dy), dx(x.size());
  for (std::size_t i = 0; i < dz.size(); ++i) { dz[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? dy[i] : 0; }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int c = 0; c < channels; ++c) {
      beta_grad[c] += dz[plain.at(r, c)];
      gamma_grad[c] += dz[plain.at(r, c)] * (x[plain.at(r, c)] - plain.mean[c]) * plain.inverse_std[c];
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int c = 0; c < channels; ++c) {
      const std::size_t i = plain.at(r, c);
      const double normalized = (x[i] - plain.mean[c]) * plain.inverse_std[c];
      dx[i] = gamma[c] * plain.inverse_std[c] *
              (dz[i] - (beta_grad[c] + normalized * gamma_grad[c]) / static_cast<double>(rows));
    }
  }

  const Tensor device_x(numeric, x), device_dy(numeric, dy), masked(numeric, x.size());
  const Tensor device_gamma = vector_of(gamma), mean = vector_of(plain.mean);
  const Tensor inverse_std = vector_of(plain.inverse_std), device_gamma_grad = vector_of(gamma);
  const Tensor device_beta_grad = vector_of(gamma);
  const NormVectors vectors{device_gamma.as<float>(), nullptr, mean.as<float>(),
                            inverse_std.as<float>(),  nullptr, nullptr};
  const Room room;
  Buffer mask(bits.size());
  mask.set(bits);
  const Buffer factors(sizeof(BackwardFactors) * gamma.size());
  const std::uint8_t* const used_mask = with_relu ? mask.as<std::uint8_t>() : nullptr;
  const Sweep sweep = rows == 245 ? Sweep::descending : Sweep::ascending;
  norm_backward_sums(
      numeric, device_dy.data(), used_mask, device_x.data(), shape, vectors, room.partial(),
      {device_gamma_grad.as<float>(), device_beta_grad.as<float>(), factors.as<BackwardFactors>()}, sweep,
      nullptr);
  norm_backward_apply(numeric, device_dy.data(), used_mask, device_x.data(), shape,
                      factors.as<BackwardFactors>(), device_dy.data(), with_relu ? masked.data() : nullptr,
                      sweep, nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(device_gamma_grad.values(), gamma_grad) < 1e-4);
  CHECK(distance(device_beta_grad.values(), beta_grad) < 1e-5);
  CHECK(distance(device_dy.values(), dx) < tolerance(numeric));
  if (with_relu) { CHECK(distance(masked.values(), dz) == 0); }
}

TEST_CASE("normalization without a mask, and with a shortcut that is normalized as well") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const bool with_shortcut = GENERATE(false, true);
  constexpr std::int64_t rows = 333;
  constexpr int channels = 88;
  const RowShape shape{rows, channels};
  const Values x = random_values(numeric, rows * channels, 1),
               other = random_values(numeric, rows * channels, 2);
  const DeviceNorm norm(channels), other_norm(channels, 20);
  const Tensor device_x(numeric, x), device_other(numeric, other), y(numeric, x.size());
  const NormVectors vectors = norm.vectors(), other_vectors = other_norm.vectors();
  norm_apply(numeric, device_x.data(), shape, vectors,
             with_shortcut ? Shortcut{device_other.data(), &other_vectors} : Shortcut{}, y.data(), nullptr,
             Sweep::ascending, nullptr);
  check(cudaDeviceSynchronize());
  const Line line = line_of(norm), other_line = line_of(other_norm);
  Values expected(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    expected[i] = line.scale[c] * x[i] + line.shift[c];
    if (with_shortcut) { expected[i] += other_line.scale[c] * other[i] + other_line.shift[c]; }
    expected[i] = std::max(0.0, expected[i]);
  }
  CHECK(distance(y.values(), expected) < tolerance(numeric));
}

TEST_CASE("sums that a graph has written become statistics and factors") {
  require_gpu();
  const int channels = GENERATE(8, 24, 136, 520);
  CAPTURE(channels);
  const RowShape shape{1000, channels};
  const Values sums = random_values(Numeric::fp32, channels, 1);
  const Values squares = random_values(Numeric::fp32, channels, 2, 2000);
  const Tensor first = vector_of(sums), second = vector_of(squares);
  const DeviceNorm norm(channels);
  const Tensor scale(Numeric::fp16, static_cast<std::size_t>(channels)),
      shift(Numeric::fp16, static_cast<std::size_t>(channels));
  norm_finalize(Numeric::fp16, first.as<float>(), second.as<float>(), shape, norm.vectors(), scale.data(),
                shift.data(), nullptr);
  check(cudaDeviceSynchronize());
  Values mean(sums), inverse_std(sums);
  for (std::size_t c = 0; c < sums.size(); ++c) {
    mean[c] = sums[c] / static_cast<double>(shape.rows);
    inverse_std[c] =
        1 / std::sqrt(squares[c] / static_cast<double>(shape.rows) - mean[c] * mean[c] + norm_epsilon);
  }
  CHECK(distance(norm.mean.values(), mean) < 1e-6);
  CHECK(distance(norm.inverse_std.values(), inverse_std) < 1e-6);
  const Line line = line_of(norm);
  CHECK(distance(scale.values(), line.scale) < tolerance(Numeric::fp16));
  CHECK(distance(shift.values(), line.shift) < tolerance(Numeric::fp16));
}

TEST_CASE("backward from a graph's sums: gradients of gamma, beta and the input, also where dx is dy") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const auto [rows, channels] = GENERATE(shapes());
  const bool in_place = GENERATE(false, true);
  CAPTURE(to_string(numeric), rows, channels, in_place);
  const RowShape shape{rows, channels};
  const Values x = random_values(numeric, rows * channels, 1, 3),
               dy = random_values(numeric, rows * channels, 2);
  const Values sums = random_values(Numeric::fp32, channels, 5),
               products = random_values(Numeric::fp32, channels, 6);
  const DeviceNorm norm(channels), gradients(channels);
  const Values gamma = norm.gamma.values(), mean = norm.mean.values(),
               inverse_std = norm.inverse_std.values();
  Values expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % static_cast<std::size_t>(channels);
    const double normalized = (x[i] - mean[c]) * inverse_std[c];
    expected[i] = gamma[c] * inverse_std[c] *
                  (dy[i] - (sums[c] + normalized * products[c]) / static_cast<double>(rows));
  }
  const Tensor device_x(numeric, x), device_dy(numeric, dy), dx(numeric, x.size());
  const Tensor sum = vector_of(sums), product_sum = vector_of(products);
  const Tensor& out = in_place ? device_dy : dx;
  norm_backward_apply_sums(numeric, device_dy.data(), device_x.data(), shape, norm.vectors(), sum.as<float>(),
                           product_sum.as<float>(), gradients.gamma.as<float>(), gradients.beta.as<float>(),
                           out.data(), rows == 245 ? Sweep::descending : Sweep::ascending, nullptr);
  check(cudaDeviceSynchronize());
  CHECK(gradients.beta.values() == sums);
  CHECK(gradients.gamma.values() == products);
  CHECK(distance(out.values(), expected) < tolerance(numeric));
}

TEST_CASE("equal inputs give equal bits in sums of a normalization, split into many blocks") {
  require_gpu();
  constexpr std::int64_t rows = 14'000;  // more blocks than a batch of them
  constexpr int channels = 40;
  const RowShape shape{rows, channels};
  const Tensor x(Numeric::fp32, random_values(Numeric::fp32, shape.rows * channels, 1));
  const auto statistics = [&] {
    const Room room;
    const DeviceNorm norm(channels), gradients(channels);
    const Buffer factors(sizeof(BackwardFactors) * channels);
    norm_sums(Numeric::fp32, x.data(), shape, room.partial(), norm.vectors(), nullptr, nullptr,
              Sweep::ascending, nullptr);
    norm_backward_sums(
        Numeric::fp32, x.data(), nullptr, x.data(), shape, norm.vectors(), room.partial(),
        {gradients.gamma.as<float>(), gradients.beta.as<float>(), factors.as<BackwardFactors>()},
        Sweep::descending, nullptr);
    check(cudaDeviceSynchronize());
    CHECK(room.is_clean());
    return std::vector<Values>{norm.mean.values(), norm.inverse_std.values(), gradients.gamma.values(),
                               gradients.beta.values()};
  };
  CHECK(statistics() == statistics());
}

TEST_CASE("the stem's norm, ReLU and max-pool in one pass, and back through the pool's positions") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const int size = GENERATE(1, 2, 5, 16, 57);
  const Sweep sweep = any_sweep();
  CAPTURE(to_string(numeric), size);
  const PoolShape shape{2, 24, size};
  const int out = shape.out_size();
  const auto channels = static_cast<std::size_t>(shape.channels);
  const Values x = random_values(numeric, 2LL * size * size * 24, 1);
  const Values dy = random_values(numeric, 2LL * out * out * 24, 2);
  const DeviceNorm norm(shape.channels), gradients(shape.channels);
  const Line line = line_of(norm);
  const Values mean = norm.mean.values(), inverse_std = norm.inverse_std.values(),
               gamma = norm.gamma.values();
  const auto at = [&](int n, int row, int column, std::size_t c, int of) {
    return static_cast<std::size_t>((n * of + row) * of + column) * channels + c;
  };
  Values y(dy.size()), dz(x.size());
  for (int n = 0; n < 2; ++n) {
    for (int pixel = 0; pixel < out * out; ++pixel) {
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t to = at(n, pixel / out, pixel % out, c, out);
        std::optional<std::size_t> where;
        for (int tap = 0; tap < 9; ++tap) {
          const int row = pixel / out * 2 - 1 + tap / 3, column = pixel % out * 2 - 1 + tap % 3;
          if (row < 0 || row >= size || column < 0 || column >= size) { continue; }
          const std::size_t from = at(n, row, column, c, size);
          const double value = line.scale[c] * x[from] + line.shift[c];
          if (!(value > y[to])) { continue; }
          y[to] = value;
          where = from;
        }
        if (where) { dz[*where] += dy[to]; }
      }
    }
  }
  Values beta_grad = column_sums_of(dz, channels), gamma_grad(channels), dx(x.size());
  const double rows = 2.0 * size * size;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    gamma_grad[c] += dz[i] * (x[i] - mean[c]) * inverse_std[c];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    dx[i] = gamma[c] * inverse_std[c] *
            (dz[i] - (beta_grad[c] + (x[i] - mean[c]) * inverse_std[c] * gamma_grad[c]) / rows);
  }
  const Tensor device_x(numeric, x), device_dy(numeric, dy), device_y(numeric, y.size()),
      device_dx(numeric, x.size());
  const Buffer position(y.size()), factors(sizeof(BackwardFactors) * channels);
  const Room room;
  norm_max_pool(numeric, device_x.data(), shape, norm.vectors(), device_y.data(), position.as<std::uint8_t>(),
                sweep, nullptr);
  pooled_norm_backward_sums(
      numeric, device_dy.data(), position.as<std::uint8_t>(), device_x.data(), shape, norm.vectors(),
      room.partial(),
      {gradients.gamma.as<float>(), gradients.beta.as<float>(), factors.as<BackwardFactors>()}, sweep,
      nullptr);
  pooled_norm_backward_apply(numeric, device_dy.data(), position.as<std::uint8_t>(), device_x.data(), shape,
                             factors.as<BackwardFactors>(), device_dx.data(), sweep, nullptr);
  check(cudaDeviceSynchronize());
  CHECK(room.is_clean());
  CHECK(distance(device_y.values(), y) < tolerance(numeric));
  CHECK(distance(gradients.beta.values(), beta_grad) < 1e-5);
  CHECK(distance(gradients.gamma.values(), gamma_grad) < 1e-4);
  CHECK(distance(device_dx.values(), dx) < tolerance(numeric));
}
