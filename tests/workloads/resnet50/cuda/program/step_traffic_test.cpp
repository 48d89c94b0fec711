#include "workloads/resnet50/cuda/program/step_traffic.h"

#include <catch2/catch.hpp>

#include <map>

#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/cuda/program/step_builder.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

/// ResNet-50 at 224 px, batch 256: megabytes of an image by pass.
std::map<std::string, double> megabytes(Numeric numeric, Fusion fusion) {
  const StepProgram program = build_step(build_model(224, 1000), settings(256, numeric, fusion));
  std::map<std::string, double> result;
  program.for_each([&](const Operation& operation, int) {
    result[pass_of(operation.action)] +=
        static_cast<double>(traffic_bytes(program, operation.action)) / 256 / 1e6;
  });
  return result;
}

double sum(const std::map<std::string, double>& parts) {
  double all = 0;
  for (const auto& [name, part] : parts) { all += part; }
  return all;
}

const Operation& operation_named(const StepProgram& program, const std::string& name) {
  for (const Operation& operation : program.micro_batch) {
    if (operation.name == name) { return operation; }
  }
  FAIL("no operation " << name);
  return program.update.front();
}

}  // namespace

// The table was counted from the model alone, before there was a program (docs/cuda.md).
TEST_CASE("a step's bytes are those of the table by levels of fusion within one percent") {
  const auto [fusion, expected] = GENERATE(table<Fusion, double>({{Fusion::none, 370.0},
                                                                  {Fusion::addition, 347.6},
                                                                  {Fusion::statistics, 325.0},
                                                                  {Fusion::full, 304.0}}));
  CAPTURE(to_string(fusion));
  CHECK(sum(megabytes(Numeric::fp16, fusion)) == Approx(expected).epsilon(0.01));
}

TEST_CASE("each pass has the bytes that the table gives it") {
  const auto at = megabytes(Numeric::fp16, Fusion::addition);
  CHECK(at.at("convolution forward") == Approx(43.7).epsilon(0.01));
  CHECK(at.at("convolution backward weights") == Approx(43.7).epsilon(0.01));
  // 41.6 and the other gradient of each block's input that is read
  CHECK(at.at("convolution backward data") == Approx(41.6 + 11.2).epsilon(0.01));
  CHECK(at.at("norm backward sums") + at.at("norm backward finalize") + at.at("norm backward apply") ==
        Approx(123.9).epsilon(0.01));
  // The weights' gradients, parameters, momentum and copy: 22 bytes of each parameter, once a step.
  CHECK(at.at("update") == Approx(25.557 * 22 / 256).epsilon(0.03));
}

TEST_CASE("fp32 moves twice the activations' bytes") {
  const double in_16_bits = sum(megabytes(Numeric::bf16, Fusion::addition));
  CHECK(sum(megabytes(Numeric::tf32, Fusion::addition)) == Approx(2 * in_16_bits).epsilon(0.02));
}

TEST_CASE("bytes of single operations by hand") {
  const StepProgram program = build_step(build_model(224, 1000), settings(8, Numeric::fp16, Fusion::none));
  const auto bytes = [&](const char* name) {
    return traffic_bytes(program, operation_named(program, name).action);
  };
  // 4 channels in, 64 out, weights 64 x 7 x 7 x 4
  CHECK(bytes("conv1 forward") == 2LL * (8LL * 4 * 224 * 224 + 64LL * 49 * 4 + 8LL * 64 * 112 * 112));
  CHECK(bytes("maxpool forward") == 8LL * 64 * (2 * 112 * 112 + 2 * 56 * 56 + 56 * 56));
}

TEST_CASE("two micro-batches move twice the bytes of one but for the update") {
  const auto all = [](int accumulate_steps, bool update) {
    const StepProgram program =
        build_step(small_model(), settings(8, Numeric::fp32, Fusion::none, accumulate_steps));
    std::int64_t bytes = 0;
    program.for_each([&](const Operation& operation, int) {
      const std::string pass = pass_of(operation.action);
      if (pass != "accumulate" && (pass == "update") == update) {
        bytes += traffic_bytes(program, operation.action);
      }
    });
    return bytes;
  };
  CHECK(all(2, false) == 2 * all(1, false));
  CHECK(all(2, true) == all(1, true));
}
