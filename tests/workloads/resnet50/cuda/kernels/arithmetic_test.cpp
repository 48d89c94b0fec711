#include "workloads/resnet50/cuda/kernels/arithmetic.h"

#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.h"

// The kernels' arithmetic on the CPU, against derivations of its own.

using namespace virtrain::resnet50::cuda;

TEST_CASE("the windows that hold an input are those of its pair's output and of the next one") {
  const int size = GENERATE(1, 2, 3, 7, 8, 112, 113);
  const PoolShape shape{1, 8, size};
  CAPTURE(size);
  for (int in = 0; in < shape.in_size; ++in) {
    for (int out = 0; out < shape.out_size(); ++out) {
      const int begin = out * shape.stride - shape.padding;
      const bool holds = begin <= in && in < begin + shape.kernel;
      CAPTURE(in, out);
      const int pair = in / 2, next = out - pair;
      if (next != 0 && next != 1) {
        CHECK_FALSE(holds);
        continue;
      }
      CHECK(is_in_window(in % 2, next) == holds);
      if (holds) { CHECK(place_in_window(in % 2, next) == in - begin); }
    }
    CHECK(in / 2 < shape.out_size());  // as many pairs as outputs
  }
  CHECK((size + 1) / 2 == shape.out_size());
}

TEST_CASE("packs of an NHWC image lie one behind the other, and the largest batch has places in 32 bits") {
  int expected = 0;
  for (int image = 0; image < 2; ++image) {
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column) {
        for (int pack = 0; pack < 5; ++pack) {
          CHECK(pack_index(image, row, column, pack, 3, 5) == expected++);
        }
      }
    }
  }
  CHECK(pack_index(2674, 0, 0, 0, 112, 8) == 2674 * 112 * 112 * 8);
}

TEST_CASE("moments are those of the values, wherever the sums' origin was") {
  const std::vector<double> values{1, 2, 4, 8, 16, 32, 64, 129};
  const double origin = GENERATE(0.0, 1.0, -1000.0);
  double sum = 0, square_sum = 0;
  for (const double value : values) {
    sum += value - origin;
    square_sum += (value - origin) * (value - origin);
  }
  const Moments result = moments(sum, square_sum, origin, 8, 1e-5);
  CHECK(result.mean == Approx(32));                        // 256 / 8
  CHECK(result.unbiased_variance == Approx(13910.0 / 7));  // sum of squares 22102 less 8 * 32^2
  CHECK(result.inverse_std == Approx(1 / std::sqrt(13910.0 / 8 + 1e-5)));
}

TEST_CASE("equal values have no negative variance, and one value has no unbiased one") {
  const double third = 1.0F / 3;
  CHECK(moments(third * 7, third * third * 7 * (1 - 1e-7), 0, 7, 1e-5).inverse_std == Approx(316.228));
  CHECK(moments(5, 25, 0, 1, 1e-5).unbiased_variance == 0);
}

TEST_CASE("the backward factors are the derivative of the normalization") {
  // loss = sum of weight_i norm(x)_i, differentiated by central differences in double.
  std::mt19937 generator(7);
  std::normal_distribution<double> normal;
  constexpr int n = 9;
  std::vector<double> x(n), weight(n);
  for (int i = 0; i < n; ++i) { x[i] = 3 + 2 * normal(generator), weight[i] = normal(generator); }
  const double gamma = 1.7;
  const auto mean_of = [](const std::vector<double>& v) {
    double sum = 0;
    for (const double value : v) { sum += value; }
    return sum / n;
  };
  const auto deviation_of = [&](const std::vector<double>& v) {
    double sum = 0;
    for (const double value : v) { sum += (value - mean_of(v)) * (value - mean_of(v)); }
    return std::sqrt(sum / n + 1e-5);
  };
  const auto loss = [&](const std::vector<double>& v) {
    double sum = 0;
    for (int i = 0; i < n; ++i) { sum += weight[i] * gamma * (v[i] - mean_of(v)) / deviation_of(v); }
    return sum;
  };
  const double mean = mean_of(x), inverse_std = 1 / deviation_of(x);
  double gamma_grad = 0, beta_grad = 0;
  for (int i = 0; i < n; ++i) {
    beta_grad += weight[i];
    gamma_grad += weight[i] * (x[i] - mean) * inverse_std;
  }
  const BackwardFactors factors = backward_factors(static_cast<float>(gamma), static_cast<float>(mean),
                                                   static_cast<float>(inverse_std), gamma_grad, beta_grad, n);
  for (int i = 0; i < n; ++i) {
    std::vector<double> up = x, down = x;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    const double expected = (loss(up) - loss(down)) / 2e-5;
    CHECK(factors.dy * weight[i] + factors.x * x[i] + factors.constant ==
          Approx(expected).epsilon(1e-4).margin(1e-5));
  }
}

TEST_CASE("SGD with momentum is torch's") {
  // torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.01), parameter 1, gradients 0.5 and -0.25, by hand.
  const SgdRule rule{0.1F, 0.9F, 0.01F, 1};
  float parameter = 1, velocity = 0;
  sgd_element(parameter, velocity, 0.5F, rule);
  CHECK(velocity == Approx(0.51));
  CHECK(parameter == Approx(0.949));
  sgd_element(parameter, velocity, -0.25F, rule);
  CHECK(velocity == Approx(0.9 * 0.51 - 0.25 + 0.00949));
  CHECK(parameter == Approx(0.949 - 0.1 * (0.459 - 0.24051)));
}

TEST_CASE("the loss scale halves after an overflow and doubles after 2000 good steps") {
  LossScale state{1024, 0, 0, 0};
  for (int step = 0; step < 1999; ++step) { update_loss_scale(state); }
  CHECK(state.scale == 1024);
  update_loss_scale(state);
  CHECK(state.scale == 2048);
  state.overflow = 1;
  update_loss_scale(state);
  CHECK(state.scale == 1024);
  CHECK(state.overflow == 0);
  CHECK(state.skipped_steps == 1);
  CHECK(state.good_steps == 0);
  state = {1, 1, 0, 0};
  update_loss_scale(state);
  CHECK(state.scale == 1);  // never below
}
