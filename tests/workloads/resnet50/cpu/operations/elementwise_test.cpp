#include "workloads/resnet50/cpu/operations/elementwise.h"

#include <limits>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cpu/operations/tensor_helpers.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cpu;
using namespace virtrain::resnet50::plain;

namespace {

constexpr std::size_t odd_count = std::size_t{3} * 7 * 13 * 13 * 71;  // several pieces of work and a rest

Layout flat(const Device& device, std::size_t count) {
  return Layout({static_cast<std::int64_t>(count)}, device.activation_type(), dnnl::memory::format_tag::x);
}

}  // namespace

TEST_CASE("addition with ReLU, forward and backward") {
  for (const Precision precision : possible_precisions()) {
    CAPTURE(to_string(precision));
    Device device(precision);
    const Layout layout = flat(device, odd_count);
    const Values a = random_values(odd_count, precision, 1);
    const Values b = random_values(odd_count, precision, 2);
    Values sum(odd_count);
    for (std::size_t i = 0; i < odd_count; ++i) { sum[i] = std::max(a[i] + b[i], 0.0); }
    const Tensor inout = make_tensor(device, layout, a);
    add_relu(inout, make_tensor(device, layout, b));
    CHECK(plain::distance(values_of(device, inout), sum) <= tolerance(precision));

    const Values out = random_values(odd_count, precision, 3);
    Values both(odd_count);
    Values first_only(odd_count);
    for (std::size_t i = 0; i < odd_count; ++i) {
      both[i] = out[i] > 0 ? a[i] + b[i] : 0;
      first_only[i] = out[i] > 0 ? a[i] : 0;
    }
    const Tensor y = make_tensor(device, layout, out);
    const Tensor gradient = device.allocate(layout);
    add_relu_backward(make_tensor(device, layout, a), make_tensor(device, layout, b), y, gradient);
    CHECK(plain::distance(values_of(device, gradient), both) <= tolerance(precision));
    const Tensor in_place = make_tensor(device, layout, a);
    add_relu_backward(in_place, make_tensor(device, layout, b), y, in_place);
    CHECK(plain::distance(values_of(device, in_place), both) <= tolerance(precision));
    add_relu_backward(make_tensor(device, layout, a), Tensor(), y, gradient);
    CHECK(values_of(device, gradient) == first_only);
  }
}

TEST_CASE("a NaN survives the addition, so that a diverged run is seen") {
  Device device(Precision::fp32);
  const Tensor values = make_tensor(device, flat(device, 2), {std::numeric_limits<double>::quiet_NaN(), 1});
  add_relu(values, make_tensor(device, flat(device, 2), {1, 1}));
  CHECK(std::isnan(values_of(device, values)[0]));
  CHECK(values_of(device, values)[1] == 2);
}

TEST_CASE("two steps of SGD as torch.optim.SGD does them") {
  std::vector<float> parameters{1.0F, -2.0F};
  std::vector<float> velocity{0.0F, 0.0F};
  const std::vector<float> gradient{4.0F, 2.0F};  // scaled by 0.5: 2 and 1
  const SgdStep rule{0.1F, 0.9F, 0.01F, 0.5F};
  sgd(parameters, velocity, gradient, rule);
  // torch: d = g + 0.01 p = 2.01, 0.98; buffer = d; p -= 0.1 buffer
  CHECK(parameters[0] == Approx(1 - 0.201));
  CHECK(parameters[1] == Approx(-2 - 0.098));
  sgd(parameters, velocity, gradient, rule);
  // d = 2 + 0.01 * 0.799 = 2.00799; buffer = 0.9 * 2.01 + d = 3.81699
  CHECK(velocity[0] == Approx(3.81699));
  CHECK(parameters[0] == Approx(0.799 - 0.381699));
}

TEST_CASE("accumulation adds, and only where it should") {
  std::vector<float> sum(50'001, 1.0F);
  const std::vector<float> values(50'001, 2.5F);
  accumulate(sum, values);
  CHECK(std::all_of(sum.begin(), sum.end(), [](float value) { return value == 3.5F; }));
}

TEST_CASE("softmax cross-entropy and its gradient") {
  // Row 1: softmax of (0, ln 2, ln 5) is (1, 2, 5) / 8; row 2 would overflow without the shift by its
  // maximum.
  const std::vector<float> logits{0.0F, std::log(2.0F), std::log(5.0F), 1000.0F, 1000.0F, 0.0F};
  const std::vector<std::int64_t> labels{2, 0};
  std::vector<float> gradient(6);
  const double loss = softmax_cross_entropy(logits, labels, 3, gradient);
  CHECK(loss == Approx((std::log(8.0 / 5.0) + std::log(2.0)) / 2).epsilon(1e-6));
  const std::vector<double> expected{1.0 / 16, 2.0 / 16, (5.0 / 8 - 1) / 2, (0.5 - 1) / 2, 0.25, 0};
  for (std::size_t i = 0; i < 6; ++i) { CHECK(gradient[i] == Approx(expected[i]).margin(1e-7)); }
}
