#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"
#include "workloads/resnet50/model.h"

using namespace virtrain::resnet50;

namespace {

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) { sum += value; }
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<float>& values) {
  const double centre = mean(values);
  double sum = 0;
  for (const float value : values) { sum += (value - centre) * (value - centre); }
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

TEST_CASE("convolutions start Kaiming normal over the fan-out") {
  const Parameter parameter{"x", {128, 64, 3, 3}, ParameterKind::convolution, false};
  const std::vector<float> values = initial_value(parameter, 0, 1, 1);
  const double expected = std::sqrt(2.0 / (128 * 9));
  CHECK(mean(values) == Approx(0).margin(expected / 50));
  CHECK(deviation(values) == Approx(expected).epsilon(0.01));
  // A normal distribution has 31.7 % beyond one deviation and 4.55 % beyond two.
  const auto beyond = [&](double bound) {
    return static_cast<double>(std::count_if(values.begin(), values.end(),
                                             [&](float v) { return std::abs(v) > bound * expected; })) /
           static_cast<double>(values.size());
  };
  CHECK(beyond(1) == Approx(0.3173).margin(0.01));
  CHECK(beyond(2) == Approx(0.0455).margin(0.005));
}

TEST_CASE("seeds and positions make a difference, and nothing else does") {
  const Parameter parameter{"x", {16, 16, 1, 1}, ParameterKind::convolution, false};
  CHECK(initial_value(parameter, 3, 7, 1) == initial_value(parameter, 3, 7, 1));
  CHECK(initial_value(parameter, 3, 7, 1) != initial_value(parameter, 4, 7, 1));
  CHECK(initial_value(parameter, 3, 7, 1) != initial_value(parameter, 3, 8, 1));
}

TEST_CASE("residual_gamma is the last scale of a block only") {
  CHECK(initial_value({"a", {3}, ParameterKind::norm_scale, true}, 0, 1, 0.25) ==
        std::vector<float>{0.25F, 0.25F, 0.25F});
  CHECK(initial_value({"a", {1}, ParameterKind::norm_scale, false}, 0, 1, 0.25) == std::vector<float>{1.0F});
  CHECK(initial_value({"a", {1}, ParameterKind::norm_shift, false}, 0, 1, 0.25) == std::vector<float>{0.0F});
}

TEST_CASE("shards differ, labels are in range, images are never zeros") {
  const Model model = build_model(32, 10);
  const Batch first = synthetic_batch(model, 64, 0, 5);
  const Batch second = synthetic_batch(model, 64, 1, 5);
  CHECK(first.images.size() == std::size_t{64} * 3 * 32 * 32);
  CHECK(first.images != second.images);
  CHECK(first.labels != second.labels);
  CHECK(*std::min_element(first.labels.begin(), first.labels.end()) == 0);
  CHECK(*std::max_element(first.labels.begin(), first.labels.end()) == 9);
  CHECK(deviation(first.images) == Approx(1).epsilon(0.02));
  CHECK(std::none_of(first.images.begin(), first.images.end(), [](float v) { return v == 0; }));
}

TEST_CASE("the parameter hash sees one changed bit and the order") {
  const std::vector<float> values{1.0F, 2.0F, 3.0F};
  const auto hash = [](const std::vector<float>& v) {
    ParameterHash h;
    h.add(v);
    return h.value();
  };
  CHECK(hash(values) == hash(values));
  CHECK(hash(values) != hash({1.0F, 3.0F, 2.0F}));
  CHECK(hash(values) != hash({1.0F, 2.0F, std::nextafter(3.0F, 4.0F)}));
  CHECK(hash({0.0F}) != hash({-0.0F}));
}
