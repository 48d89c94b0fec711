#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "workloads/resnet50/cpu/network.h"
#include "workloads/resnet50/cpu/operations/device.h"
#include "workloads/resnet50/model.h"

/// One whole step against PyTorch's fp64 gradients, offline. tests/data/resnet50_reference.json (made by
/// scripts/reference/resnet50_reference.py) has 32 random projections of each gradient and PyTorch's own
/// error: the mean square of the differences of projections estimates the squared norm of the difference to
/// within a quarter or so, hence the slack.
using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cpu;

namespace {

constexpr std::size_t projections = 32;
constexpr double slack = 1.5;

std::uint64_t mix(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::array<double, projections> project(const std::vector<float>& values) {
  std::array<double, projections> sums{};
#pragma omp parallel
  {
    std::array<double, projections> mine{};
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t word = mix(i);
      const std::array<double, 2> signed_value{-values[i], values[i]};
      for (std::size_t k = 0; k < projections; ++k) { mine[k] += signed_value[(word >> k) & 1]; }
    }
#pragma omp critical
    for (std::size_t k = 0; k < projections; ++k) { sums[k] += mine[k]; }
  }
  return sums;
}

double estimated_error(const std::vector<float>& gradient, const nlohmann::json& expected) {
  const std::array<double, projections> ours = project(gradient);
  double sum = 0;
  for (std::size_t k = 0; k < projections; ++k) {
    const double difference = ours[k] - expected["projections"][k].get<double>();
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(projections)) / expected["norm"].get<double>();
}

struct Rules {
  double most;
  double every;
  double loss;
};

/// The network after one forward and backward pass from the reference's parameters and batch.
class Step {
 public:
  Step(const nlohmann::json& reference, Precision precision)
      : model_(
            build_model(reference["configuration"]["image_size"], reference["configuration"]["num_classes"])),
        device_(precision),
        network_(device_, model_, reference["configuration"]["batch_size"]),
        store_(device_, resnet50::parameters(model_), network_.parameter_layouts()) {
    const nlohmann::json& configuration = reference["configuration"];
    const std::uint64_t seed = configuration["seed"];
    network_.attach(store_);
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      store_.set(i, initial_value(parameters()[i], i, seed, configuration["residual_gamma"]));
    }
    REQUIRE(store_.hash() == std::stoull(reference["parameters_hash"].get<std::string>(), nullptr, 16));
    const Batch batch = synthetic_batch(model_, configuration["batch_size"], 0, seed);
    loss_ = network_.forward(network_.prepare_images(batch.images), batch.labels);
    network_.backward([](std::size_t) {});
  }

  double loss() const { return loss_; }
  const std::vector<Parameter>& parameters() const { return store_.parameters(); }
  std::vector<float> gradient(std::size_t parameter) { return store_.plain_gradient(parameter); }

 private:
  Model model_;
  Device device_;
  Network network_;
  ParameterStore store_;
  double loss_ = 0;
};

/// What a gradient is multiplied by before it is judged: 1, or a planted mistake.
using Factor = std::function<float(const std::string& parameter)>;

/// The gradients that are further off than the rules allow any, and how many are within what most must keep.
struct Verdict {
  std::vector<std::string> wrong;
  double share_good = 0;
};

Verdict judge(Step& step, const nlohmann::json& reference, const std::string& precision, const Rules& rules,
              const Factor& factor) {
  Verdict verdict;
  const double each = 1 / static_cast<double>(step.parameters().size());
  for (std::size_t i = 0; i < step.parameters().size(); ++i) {
    const std::string& parameter = step.parameters()[i].name;
    const nlohmann::json& expected = reference["gradients"][parameter];
    const double own = expected["pytorch_error"][precision];
    std::vector<float> gradient = step.gradient(i);
    for (float& value : gradient) { value *= factor(parameter); }
    const double error = estimated_error(gradient, expected);
    if (error <= slack * std::max(rules.most, 3 * own)) { verdict.share_good += each; }
    if (!(error <= slack * std::max(rules.every, 3 * own))) { verdict.wrong.push_back(parameter); }
  }
  return verdict;
}

void check_case(const nlohmann::json& reference, Precision precision, const Rules& rules) {
  const std::string name = to_string(precision);
  CAPTURE(name, reference["configuration"].dump());
  Step step(reference, precision);
  const double expected_loss = reference["loss"];
  CHECK(std::abs(step.loss() - expected_loss) / expected_loss <=
        std::max(rules.loss, 3 * reference["pytorch_loss_error"][name].get<double>()));
  const Verdict verdict = judge(step, reference, name, rules, [](const std::string&) { return 1.0F; });
  CHECK_THAT(verdict.wrong, virtrain::test::Equals(std::vector<std::string>{}));
  CHECK(verdict.share_good >= 0.9);

  const std::string planted = "layer2.0.bn2.weight";
  const Verdict caught = judge(step, reference, name, rules, [&](const std::string& parameter) {
    return parameter == planted ? -1.0F : 1.0F;
  });
  CHECK_THAT(caught.wrong, virtrain::test::Equals(std::vector<std::string>{planted}));
}

nlohmann::json reference_case(double residual_gamma) {
  const auto all =
      nlohmann::json::parse(read_file(VIRTRAIN_SOURCE_DIR "/tests/data/resnet50_reference.json").value());
  for (const nlohmann::json& reference : all["cases"]) {
    if (reference["configuration"]["residual_gamma"] == residual_gamma) { return reference; }
  }
  FAIL("no such case in the reference");
  return {};
}

}  // namespace

TEST_CASE(
    "one fp32 step equals PyTorch's within PyTorch's own error and a planted sign error is caught, "
    "residual_gamma 0.1") {
  check_case(reference_case(0.1), Precision::fp32, {1e-3, 5e-2, 1e-4});
}

TEST_CASE(
    "one fp32 step equals PyTorch's within PyTorch's own error and a planted sign error is caught, "
    "residual_gamma 1") {
  check_case(reference_case(1), Precision::fp32, {1e-3, 5e-2, 1e-4});
}

TEST_CASE(
    "one bf16 step equals PyTorch's within PyTorch's own error and a planted sign error is caught, "
    "residual_gamma 0.1") {
  const std::vector<Precision> possible = possible_precisions();
  if (std::find(possible.begin(), possible.end(), Precision::bf16) == possible.end()) {
    std::cout << "skipped: this processor has no bf16 (oneDNN: " << onednn::instruction_set() << ")\n";
    return;
  }
  check_case(reference_case(0.1), Precision::bf16, {2e-2, 1e-1, 1e-2});
}
