#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/kernels/kernel_tensors.h"

// Each kernel but the normalization's against a plain fp64 version on inputs that its precision holds
// exactly: on a GPU, and emulated.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

TEST_CASE("a NaN comes out of the max-pool, and gets no gradient") {
  require_gpu();
  constexpr int size = 5, channels = 8, out = 3;
  const PoolShape shape{1, channels, size};
  Values x(std::size_t{size} * size * channels, -1);
  x[(2 * size + 2) * channels + 3] = NAN;  // in the middle's window alone
  const Tensor device_x(Numeric::fp16, x), y(Numeric::fp16, std::size_t{out} * out * channels);
  const Tensor ones = vector_of(Values(channels, 1)), zeros = vector_of(Values(channels, 0));
  const NormVectors vectors{ones.as<float>(), zeros.as<float>(), zeros.as<float>(),
                            ones.as<float>(), nullptr,           nullptr};
  const Buffer position(std::size_t{out} * out * channels);
  norm_max_pool(Numeric::fp16, device_x.data(), shape, vectors, y.data(), position.as<std::uint8_t>(),
                Sweep::ascending, nullptr);
  check(cudaDeviceSynchronize());
  const Values largest = y.values();
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const bool middle = i == (1 * out + 1) * channels + 3;
    CHECK((middle ? std::isnan(largest[i]) : largest[i] == 0));
    CHECK(position.get<std::uint8_t>()[i] == no_position);
  }
}

TEST_CASE("a max-pool of more than 32 bits can count is refused") {
  const PoolShape shape{1 << 20, 64, 112};
  CHECK_THROWS_WITH(
      norm_max_pool(Numeric::fp16, nullptr, shape, {}, nullptr, nullptr, Sweep::ascending, nullptr),
      virtrain::test::Contains("less than 2^31"));
}

TEST_CASE("two gradients are added in place") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const Values a = random_values(numeric, 24LL * 337, 1), b = random_values(numeric, 24LL * 337, 2);
  Values expected(a);
  for (std::size_t i = 0; i < a.size(); ++i) { expected[i] += b[i]; }
  const Tensor device_a(numeric, a), device_b(numeric, b);
  add(numeric, device_a.data(), device_b.data(), static_cast<std::int64_t>(a.size()), device_a.data(),
      nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(device_a.values(), expected) < tolerance(numeric));
}

TEST_CASE("stamps are nanoseconds that go on") {
  require_gpu();
  const Buffer times(2 * sizeof(std::uint64_t));
  stamp(times.as<std::uint64_t>(), nullptr);
  check(cudaDeviceSynchronize());
  usleep(20'000);
  stamp(times.as<std::uint64_t>() + 1, nullptr);
  check(cudaDeviceSynchronize());
  const std::vector<std::uint64_t> both = times.get<std::uint64_t>();
  CHECK(both[1] - both[0] >= 19'000'000);
}

TEST_CASE("noise has both signs, fills all whole words and is between 1 and 2 in fp16") {
  require_gpu();
  const Tensor memory(Numeric::fp16, 10'003);
  fill_noise(memory.data(), 2 * 10'003, nullptr);
  check(cudaDeviceSynchronize());
  const Values values = memory.values();
  int negative = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    CHECK((std::abs(values[i]) >= 1 && std::abs(values[i]) < 2));
    negative += values[i] < 0 ? 1 : 0;
  }
  CHECK(std::abs(negative - 5000) < 250);  // five standard deviations
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
  // More rows than a block has threads, and more classes, none of them a multiple.
  const auto size = GENERATE(table<int, int>({{5, 2}, {5, 255}, {5, 1000}, {300, 3}}));
  const int rows = std::get<0>(size), classes = std::get<1>(size);
  CAPTURE(to_string(numeric), rows, classes);
  const double scale = 64;
  constexpr int ranks = 2;  // each has its share of the mean's gradient
  const Values logits = random_values(numeric, static_cast<std::int64_t>(rows) * classes, 1, 20);
  const Values bias = random_values(Numeric::fp32, classes, 2);
  std::vector<std::int32_t> labels(rows);
  for (int r = 0; r < rows; ++r) { labels[r] = r * 7 % classes; }
  Values gradient(logits.size()), sums(bias.size());
  double loss = 0;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    const auto at = [&](int c) { return static_cast<std::size_t>(r) * classes + c; };
    for (int c = 0; c < classes; ++c) { sum += std::exp(logits[at(c)] + bias[c]); }
    loss += (std::log(sum) - logits[at(labels[r])] - bias[labels[r]]) / rows;
    for (int c = 0; c < classes; ++c) {
      gradient[at(c)] = (std::exp(logits[at(c)] + bias[c]) / sum - (c == labels[r])) * scale / rows / ranks;
    }
  }
  const Tensor x(numeric, logits), device_bias = vector_of(bias), row_loss(Numeric::fp32, rows),
                                   mean(Numeric::fp32, 1);
  const Tensor device_sums(Numeric::fp32, bias.size());
  Buffer device_labels(labels.size() * 4), state(sizeof(LossScale));
  device_labels.set(labels);
  state.set(std::vector<LossScale>{{static_cast<float>(scale), 0, 0, 0}});
  softmax_cross_entropy(numeric, x.data(), device_bias.as<float>(), device_labels.as<std::int32_t>(), rows,
                        classes, ranks, state.as<LossScale>(), row_loss.as<float>(), x.data(), nullptr);
  mean_loss(row_loss.as<float>(), rows, mean.as<float>(), nullptr);
  column_sums(numeric, x.data(), rows, classes, device_sums.as<float>(), nullptr);
  check(cudaDeviceSynchronize());
  const Values actual = x.values();
  CHECK(mean.values()[0] == Approx(loss).epsilon(1e-5));
  CHECK(distance(actual, gradient) < tolerance(numeric));
  for (std::size_t i = 0; i < actual.size(); ++i) { sums[i % sums.size()] += actual[i]; }
  CHECK(distance(device_sums.values(), sums) < 1e-5);
}

TEST_CASE("the update, its overflow and the copy in the activations' type") {
  require_gpu();
  // Of gradients and of the copy, of which fp32 has none; sums of micro-batches are fp32.
  const auto [numeric, copied] = GENERATE(table<Numeric, Numeric>({{Numeric::bf16, Numeric::bf16},
                                                                   {Numeric::fp16, Numeric::fp16},
                                                                   {Numeric::fp32, Numeric::bf16},
                                                                   {Numeric::fp32, Numeric::fp16},
                                                                   {Numeric::fp32, Numeric::fp32}}));
  constexpr std::int64_t count = 1027;  // no multiple of a pack
  const int infinite = GENERATE(-1, 0, 7, 516, 1023, 1024, 1026);
  const bool overflow = infinite >= 0;
  CAPTURE(to_string(numeric), to_string(copied), infinite);
  const bool has_copy = copied != Numeric::fp32;
  const Values parameters = random_values(Numeric::fp32, count, 1),
               velocity = random_values(Numeric::fp32, count, 2);
  Values gradient = random_values(numeric, count, 3);
  if (overflow) { gradient[static_cast<std::size_t>(infinite)] = infinite % 2 == 0 ? INFINITY : NAN; }
  Tensor p = vector_of(parameters), v = vector_of(velocity);
  const Tensor g(numeric, gradient), copy(copied, parameters);
  const SgdRule rule{0.1F, 0.9F, 1e-4F, 0.5F};
  Buffer device_rule(sizeof rule), state(sizeof(LossScale));
  device_rule.set(std::vector<SgdRule>{rule});
  state.set(std::vector<LossScale>{{8, 0, 0, 0}});
  find_overflow(numeric, g.data(), count, state.as<LossScale>(), nullptr);
  sgd(numeric, g.data(), count, p.as<float>(), v.as<float>(), copied, has_copy ? copy.data() : nullptr,
      device_rule.as<SgdRule>(), state.as<LossScale>(), nullptr);
  advance_loss_scale(state.as<LossScale>(), nullptr);
  check(cudaDeviceSynchronize());
  Values expected(parameters);
  for (std::size_t i = 0; i < expected.size() && !overflow; ++i) {
    const double full = gradient[i] * 0.5 / 8 + 1e-4 * parameters[i];
    expected[i] -= 0.1 * (0.9 * velocity[i] + full);
  }
  CHECK(distance(p.values(), expected) < 1e-6);
  if (has_copy) { CHECK(distance(copy.values(), expected) < tolerance(copied)); }
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
  Values doubled(images);
  for (double& value : doubled) { value *= 2; }
  CHECK(sum.values() == doubled);
  const Values padded = out.values();
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const std::size_t pixel = i / 4, channel = i % 4;
    const double expected = channel == 3 ? 0 : images[(pixel / 25 * 3 + channel) * 25 + pixel % 25];
    if (padded[i] != expected) { FAIL("element " << i << " is " << padded[i] << ", not " << expected); }
  }
}

TEST_CASE("columns of any number of rows are summed") {
  require_gpu();
  const Numeric numeric = GENERATE(Numeric::fp32, Numeric::bf16, Numeric::fp16);
  const int rows = GENERATE(1, 31, 32, 257), columns = GENERATE(1, 13, 100);
  CAPTURE(to_string(numeric), rows, columns);
  const Values values = random_values(numeric, std::int64_t{rows} * columns, 1);
  Values expected(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < values.size(); ++i) { expected[i % expected.size()] += values[i]; }
  const Tensor device_values(numeric, values), sums(Numeric::fp32, expected.size());
  column_sums(numeric, device_values.data(), rows, columns, sums.as<float>(), nullptr);
  check(cudaDeviceSynchronize());
  CHECK(distance(sums.values(), expected) < 1e-6);
}
