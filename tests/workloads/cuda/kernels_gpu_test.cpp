#include "tests/support/skip.h"
#include "workloads/resnet50/cuda/kernels/kernels.h"

#include <catch2/catch.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

// Each kernel against a plain fp64 version on inputs that its precision holds exactly. Needs a GPU.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

using Values = std::vector<double>;

void require_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) test::skip(std::string("no GPU: ") + cudaGetErrorString(status));
}

void check(cudaError_t status) {
  REQUIRE(std::string(cudaGetErrorString(status)) == "no error");
}

double rounded(Numeric numeric, double value) {
  const auto narrow_value = static_cast<float>(value);
  if (numeric == Numeric::fp16) return __half2float(__float2half_rn(narrow_value));
  if (numeric == Numeric::bf16) return __bfloat162float(__float2bfloat16_rn(narrow_value));
  return narrow_value;
}

Values random_values(Numeric numeric, std::int64_t count, unsigned seed, double mean = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, 1);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = rounded(numeric, normal(generator));
  return values;
}

/// Device memory with a copy in and out.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes + 16));
    check(cudaMemset(data_, 0xff, bytes));  // NaN: what a kernel forgets to write shows
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  void* data() const { return data_; }
  template <typename T>
  void set(const std::vector<T>& values) {
    REQUIRE(values.size() * sizeof(T) == bytes_);
    check(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice));
  }
  template <typename T>
  std::vector<T> get() const {
    std::vector<T> values(bytes_ / sizeof(T));
    check(cudaMemcpy(values.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// An activation of this type.
class Tensor : public Buffer {
 public:
  Tensor(Numeric numeric, std::size_t count)
      : Buffer(count * static_cast<std::size_t>(element_bytes(numeric))), numeric_(numeric) {}
  Tensor(Numeric numeric, const Values& values) : Tensor(numeric, values.size()) {
    if (numeric == Numeric::fp16) {
      std::vector<__half> narrow_values;
      for (const double value : values) narrow_values.push_back(__float2half_rn(static_cast<float>(value)));
      set(narrow_values);
    } else if (numeric == Numeric::bf16) {
      std::vector<__nv_bfloat16> narrow_values;
      for (const double value : values)
        narrow_values.push_back(__float2bfloat16_rn(static_cast<float>(value)));
      set(narrow_values);
    } else {
      set(std::vector<float>(values.begin(), values.end()));
    }
  }
  Values values() const {
    Values result;
    if (numeric_ == Numeric::fp16) {
      for (const __half value : get<__half>()) result.push_back(__half2float(value));
    } else if (numeric_ == Numeric::bf16) {
      for (const __nv_bfloat16 value : get<__nv_bfloat16>()) result.push_back(__bfloat162float(value));
    } else {
      for (const float value : get<float>()) result.push_back(value);
    }
    return result;
  }

 private:
  Numeric numeric_;
};

Tensor vector_of(const Values& values) {
  return Tensor(Numeric::fp32, values);
}

double distance(const Values& actual, const Values& expected) {
  REQUIRE(actual.size() == expected.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / (size > 0 ? size : 1));
}

double tolerance(Numeric numeric) {
  if (numeric == Numeric::fp16) return 0x1p-10;
  return numeric == Numeric::bf16 ? 0x1p-7 : 1e-5;
}

/// One normalization with a shortcut, forward and backward, in fp64.
struct PlainNorm {
  std::int64_t rows;
  int channels;
  Values mean, inverse_std, variance;

  PlainNorm(const Values& x, std::int64_t rows_, int channels_) : rows(rows_), channels(channels_) {
    for (int c = 0; c < channels; ++c) {
      double sum = 0, square_sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += x[at(r, c)];
      for (std::int64_t r = 0; r < rows; ++r)
        square_sum += std::pow(x[at(r, c)] - sum / static_cast<double>(rows), 2);
      mean.push_back(sum / static_cast<double>(rows));
      variance.push_back(square_sum / static_cast<double>(rows));
      inverse_std.push_back(1 / std::sqrt(variance.back() + norm_epsilon));
    }
  }
  std::size_t at(std::int64_t row, int channel) const {
    return static_cast<std::size_t>(row * channels + channel);
  }
};

}  // namespace

TEST_CASE("normalization forward: statistics, shortcut, ReLU, mask") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const auto [rows, channels] =
      GENERATE(table<std::int64_t, int>({{1, 8}, {7, 24}, {245, 64}, {3137, 2048}}));
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
  const int blocks = partial_blocks(shape);
  const Tensor first(Numeric::fp32, static_cast<std::size_t>(blocks * channels));
  const Tensor second(Numeric::fp32, static_cast<std::size_t>(blocks * channels));
  const PartialSums partial{first.as<float>(), second.as<float>(), blocks};
  const Buffer mask(x.size() / pack_size);
  norm_sums(numeric, device_x.data(), shape, partial, nullptr);
  norm_finalize(numeric, device_x.data(), partial, shape, vectors, nullptr, nullptr, nullptr);
  norm_apply(numeric, device_x.data(), shape, vectors, {device_other.data(), nullptr}, y.data(),
             mask.as<std::uint8_t>(), nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(mean.values(), plain.mean) < 1e-5);
  const Values actual = y.values();
  CHECK(distance(actual, expected) < (rows == 1 ? 1e-2 : tolerance(numeric)));
  Values running(plain.variance);
  for (double& value : running)
    value = 0.9 + 0.1 * value * static_cast<double>(rows) / std::max(1.0, static_cast<double>(rows) - 1);
  CHECK(distance(running_variance.values(), running) < 1e-5);
  const std::vector<std::uint8_t> bits = mask.get<std::uint8_t>();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if ((bits[i / 8] >> (i % 8) & 1) != (actual[i] > 0) && expected[i] > 1e-6)
      FAIL("mask differs at element " << i);
  }
}

TEST_CASE("normalization backward: gradients of gamma, beta and the input, and the shortcut's") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const auto [rows, channels] = GENERATE(table<std::int64_t, int>({{7, 24}, {245, 64}, {3137, 2048}}));
  CAPTURE(to_string(numeric), rows, channels);
  const RowShape shape{rows, channels};
  const Values x = random_values(numeric, rows * channels, 1, 3),
               dy = random_values(numeric, rows * channels, 2);
  const Values gamma = random_values(Numeric::fp32, channels, 3);
  std::vector<std::uint8_t> bits(x.size() / pack_size);
  std::mt19937 generator(9);
  for (std::uint8_t& byte : bits) byte = static_cast<std::uint8_t>(generator());
  const PlainNorm plain(x, rows, channels);
  Values gamma_grad(gamma.size()), beta_grad(gamma.size()), dz(dy), dx(x.size());
  for (std::size_t i = 0; i < dz.size(); ++i) dz[i] = (bits[i / 8] >> (i % 8) & 1) != 0 ? dy[i] : 0;
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
  const int blocks = partial_blocks(shape);
  const Tensor first(Numeric::fp32, static_cast<std::size_t>(blocks * channels));
  const Tensor second(Numeric::fp32, static_cast<std::size_t>(blocks * channels));
  const PartialSums partial{first.as<float>(), second.as<float>(), blocks};
  Buffer mask(bits.size());
  mask.set(bits);
  const Buffer factors(sizeof(BackwardFactors) * gamma.size());
  norm_backward_sums(numeric, device_dy.data(), mask.as<std::uint8_t>(), device_x.data(), shape, vectors,
                     partial, nullptr);
  norm_backward_finalize(partial, shape, vectors, device_gamma_grad.as<float>(), device_beta_grad.as<float>(),
                         factors.as<BackwardFactors>(), nullptr);
  norm_backward_apply(numeric, device_dy.data(), mask.as<std::uint8_t>(), device_x.data(), shape,
                      factors.as<BackwardFactors>(), device_dy.data(), masked.data(), nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(device_gamma_grad.values(), gamma_grad) < 1e-4);
  CHECK(distance(device_beta_grad.values(), beta_grad) < 1e-5);
  CHECK(distance(device_dy.values(), dx) < tolerance(numeric));
  CHECK(distance(masked.values(), dz) == 0);
}

TEST_CASE("max-pool forward and backward at odd and even sizes") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const int size = GENERATE(1, 2, 5, 16, 113);
  CAPTURE(to_string(numeric), size);
  const PoolShape shape{2, 24, size, 3, 2, 1};
  const int out = shape.out_size();
  const Values x = random_values(numeric, 2LL * size * size * 24, 1);
  const Values dy = random_values(numeric, 2LL * out * out * 24, 2);
  Values y(dy.size(), -1e30), dx(x.size());
  for (std::size_t o = 0; o < y.size(); ++o) {
    const int c = static_cast<int>(o % 24), column = static_cast<int>(o / 24) % out,
              row = static_cast<int>(o / 24) / out % out, image = static_cast<int>(o / 24) / out / out;
    std::size_t winner = 0;
    for (int i = std::max(0, 2 * row - 1); i <= std::min(size - 1, 2 * row + 1); ++i) {
      for (int j = std::max(0, 2 * column - 1); j <= std::min(size - 1, 2 * column + 1); ++j) {
        const auto in = (static_cast<std::size_t>(image * size + i) * size + j) * 24 + c;
        if (x[in] > y[o]) y[o] = x[in], winner = in;
      }
    }
    dx[winner] += dy[o];
  }
  const Tensor device_x(numeric, x), device_dy(numeric, dy), device_y(numeric, y.size()),
      device_dx(numeric, x.size());
  const Buffer position(y.size());
  max_pool(numeric, device_x.data(), shape, device_y.data(), position.as<std::uint8_t>(), nullptr);
  max_pool_backward(numeric, device_dy.data(), position.as<std::uint8_t>(), shape, device_dx.data(), nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(device_y.values(), y) == 0);
  CHECK(distance(device_dx.values(), dx) < tolerance(numeric));
}

TEST_CASE("average pool forward and backward") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const int positions = GENERATE(1, 9, 49);
  const Values x = random_values(numeric, 3LL * positions * 40, 1), dy = random_values(numeric, 3LL * 40, 2);
  Values y(dy.size()), dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t o = i / (static_cast<std::size_t>(positions) * 40) * 40 + i % 40;
    y[o] += x[i] / positions;
    dx[i] = dy[o] / positions;
  }
  const Tensor device_x(numeric, x), device_dy(numeric, dy), device_y(numeric, y.size()),
      device_dx(numeric, x.size());
  average_pool(numeric, device_x.data(), 3, positions, 40, device_y.data(), nullptr);
  average_pool_backward(numeric, device_dy.data(), 3, positions, 40, device_dx.data(), nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(device_y.values(), y) < tolerance(numeric));
  CHECK(distance(device_dx.values(), dx) < tolerance(numeric));
}

TEST_CASE("softmax cross-entropy and its sums") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const int classes = GENERATE(2, 255, 1000);
  CAPTURE(to_string(numeric), classes);
  const int rows = 5;
  const double scale = 64;
  const Values logits = random_values(numeric, static_cast<std::int64_t>(rows) * classes, 1, 20);
  const Values bias = random_values(Numeric::fp32, classes, 2);
  std::vector<std::int32_t> labels(rows);
  for (int r = 0; r < rows; ++r) labels[r] = r * 7 % classes;
  Values gradient(logits.size()), sums(bias.size());
  double loss = 0;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    const auto at = [&](int c) { return static_cast<std::size_t>(r) * classes + c; };
    for (int c = 0; c < classes; ++c) sum += std::exp(logits[at(c)] + bias[c]);
    loss += (std::log(sum) - logits[at(labels[r])] - bias[labels[r]]) / rows;
    for (int c = 0; c < classes; ++c) {
      gradient[at(c)] = (std::exp(logits[at(c)] + bias[c]) / sum - (c == labels[r])) * scale / rows;
    }
  }
  const Tensor x(numeric, logits), device_bias = vector_of(bias), row_loss(Numeric::fp32, rows),
                                   mean(Numeric::fp32, 1);
  const Tensor device_sums(Numeric::fp32, bias.size());
  Buffer device_labels(labels.size() * 4), state(sizeof(LossScale));
  device_labels.set(labels);
  state.set(std::vector<LossScale>{{static_cast<float>(scale), 0, 0, 0}});
  softmax_cross_entropy(numeric, x.data(), device_bias.as<float>(), device_labels.as<std::int32_t>(), rows,
                        classes, state.as<LossScale>(), row_loss.as<float>(), x.data(), nullptr);
  mean_loss(row_loss.as<float>(), rows, mean.as<float>(), nullptr);
  column_sums(numeric, x.data(), rows, classes, device_sums.as<float>(), nullptr);
  check(cudaDeviceSynchronize());
  const Values actual = x.values();
  CHECK(mean.values()[0] == Approx(loss).epsilon(1e-5));
  CHECK(distance(actual, gradient) < tolerance(numeric));
  for (std::size_t i = 0; i < actual.size(); ++i) sums[i % sums.size()] += actual[i];
  CHECK(distance(device_sums.values(), sums) < 1e-5);
}

TEST_CASE("the update, its overflow and the copy in the activations' type") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::bf16, Numeric::fp16);
  const bool overflow = GENERATE(false, true);
  constexpr std::int64_t count = 1027;
  const Values parameters = random_values(Numeric::fp32, count, 1),
               velocity = random_values(Numeric::fp32, count, 2);
  Values gradient = random_values(numeric, count, 3);
  if (overflow) gradient[1026] = INFINITY;
  Tensor p = vector_of(parameters), v = vector_of(velocity);
  const Tensor g(numeric, gradient), copy(numeric, parameters);
  const SgdRule rule{0.1F, 0.9F, 1e-4F, 0.5F};
  Buffer device_rule(sizeof rule), state(sizeof(LossScale));
  device_rule.set(std::vector<SgdRule>{rule});
  state.set(std::vector<LossScale>{{8, 0, 0, 0}});
  find_overflow(numeric, g.data(), count, state.as<LossScale>(), nullptr);
  sgd(numeric, g.data(), count, p.as<float>(), v.as<float>(), numeric, copy.data(), device_rule.as<SgdRule>(),
      state.as<LossScale>(), nullptr);
  advance_loss_scale(state.as<LossScale>(), nullptr);
  check(cudaDeviceSynchronize());
  Values expected(parameters);
  for (std::size_t i = 0; i < expected.size() && !overflow; ++i) {
    const double full = gradient[i] * 0.5 / 8 + 1e-4 * parameters[i];
    expected[i] -= 0.1 * (0.9 * velocity[i] + full);
  }
  CHECK(distance(p.values(), expected) < 1e-6);
  CHECK(distance(copy.values(), expected) < tolerance(numeric));
  CHECK(state.get<LossScale>()[0].scale == (overflow ? 4 : 8));
}

TEST_CASE("images are padded to four channels, conversions keep what fits") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const Values images = random_values(numeric, 2LL * 3 * 25, 1);
  const Tensor plain = vector_of(images), out(numeric, 200), narrowed(numeric, images.size());
  const Tensor sum = vector_of(images);
  pad_images(plain.as<float>(), 2, 5, numeric, out.data(), nullptr);
  narrow(plain.as<float>(), static_cast<std::int64_t>(images.size()), numeric, narrowed.data(), nullptr);
  accumulate(numeric, narrowed.data(), static_cast<std::int64_t>(images.size()), sum.as<float>(), nullptr);
  widen(numeric, narrowed.data(), static_cast<std::int64_t>(images.size()), plain.as<float>(), nullptr);
  check(cudaDeviceSynchronize());
  CHECK(plain.values() == images);
  CHECK(sum.values()[7] == Approx(2 * images[7]));
  const Values padded = out.values();
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const std::size_t pixel = i / 4, channel = i % 4;
    const double expected = channel == 3 ? 0 : images[(pixel / 25 * 3 + channel) * 25 + pixel % 25];
    if (padded[i] != expected) FAIL("element " << i << " is " << padded[i] << ", not " << expected);
  }
}
