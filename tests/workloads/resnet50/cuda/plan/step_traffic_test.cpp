#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/plan/cache_model.h"
#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/cuda/plan/fusion.h"
#include "workloads/resnet50/cuda/program/step_program.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

/// ResNet-50 at 224 px, batch 256: megabytes of an image by pass.
std::map<std::string, double> megabytes(Numeric numeric, Fusion fusion) {
  const StepProgram program = build_step(build_model(224, 1000), settings(256, numeric, fusion));
  std::map<std::string, double> result;
  program.for_each([&](const Operation& operation, int) {
    result[operation.pass] += static_cast<double>(traffic_bytes(program, operation)) / 256 / 1e6;
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

namespace {

/// Of an image in 16 bits, counted from the model alone.
class Count {
 public:
  explicit Count(Fusion fusion) : fusion_(fusion) {}

  double megabytes() {
    const Model model = build_model(224, 1000);
    stem(model.stem);
    for (std::size_t b = 0; b < model.blocks.size(); ++b) {
      block(model.blocks[b], b == 0, b + 1 == model.blocks.size());
    }
    const double last = 49.0 * 2048;  // the average and back
    return 2e-6 * (elements_ + 2 * last) + 25.557 * 22 / 256 + 3 * 2.048 * 2 / 256;
  }

 private:
  static double in(const Unit& unit) {
    const double size = unit.convolution.in_size;
    return size * size * std::max(4, unit.convolution.in_channels);
  }
  static double out(const Unit& unit) {
    const double size = unit.convolution.out_size();
    return size * size * unit.convolution.out_channels;
  }
  static double weights(const Unit& unit) {
    const Convolution& c = unit.convolution;
    return static_cast<double>(c.kernel) * c.kernel * std::max(4, c.in_channels) * c.out_channels / 256;
  }
  void convolutions(const Unit& unit, int directions) {
    elements_ += directions * (in(unit) + out(unit) + weights(unit));
    if (directions == 2 || fusion_ < Fusion::statistics) {
      elements_ += out(unit);
    }  // sums; the stem's always
  }
  void stem(const Unit& unit) {
    convolutions(unit, 2);
    const double y = out(unit), pooled = y / 4 * 1.5;  // and a byte of position each
    elements_ += 4 * y + 3 * pooled;
  }
  void block(const Block& block, bool is_first, bool is_last) {
    for (std::size_t i = 0; i < block.units.size(); ++i) {
      convolutions(block.units[i], 3);
      if (i + 1 < block.units.size()) { inner_norm(out(block.units[i])); }
    }
    if (block.shortcut) { convolutions(*block.shortcut, 3); }
    end(block, is_last);
    const double x = in(block.units[0]);
    elements_ += fusion_ == Fusion::none ? 3 * x : x;  // the other gradient
    if (!is_first && (fusion_ == Fusion::addition || fusion_ == Fusion::statistics)) { elements_ += x * bit; }
  }
  void inner_norm(double y) { elements_ += fusion_ == Fusion::full ? 4 * y : 2 * y + 5 * y + 3 * bit * y; }
  void end(const Block& block, bool is_last) {
    const double y = out(block.units.back());
    elements_ += 3 * y;
    const int norms = block.shortcut ? 2 : 1;
    const bool is_masked = fusion_ >= Fusion::addition && !is_last,
               has_sums = fusion_ == Fusion::full && !is_last;
    elements_ += has_sums ? 2 * y + norms * 3 * y : norms * 5 * y;
    if (!has_sums) { elements_ += y * bit; }
    if (!is_masked) { elements_ += norms * 2 * bit * y + (block.shortcut ? 0 : y); }
  }

  static constexpr double bit = 1.0 / 16;  ///< of an element
  Fusion fusion_;
  double elements_ = 0;
};

}  // namespace

TEST_CASE("a step's bytes at each level of fusion are those that the model alone says") {
  const Fusion fusion = GENERATE(Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full);
  CAPTURE(to_string(fusion));
  CHECK(sum(megabytes(Numeric::fp16, fusion)) == Approx(Count(fusion).megabytes()).epsilon(0.002));
}

TEST_CASE("what fusing the ends of blocks and the stem's passes saves") {
  // Before, at these levels: 367, 344, 323 and 302 MB. The stem's passes were 15.9.
  const auto stem = megabytes(Numeric::fp16, Fusion::none).at("stem");
  CHECK(stem == Approx(8.2).epsilon(0.01));
  const double tails = 344 - sum(megabytes(Numeric::fp16, Fusion::addition)) - (15.9 - 8.2);
  CHECK(tails > 8.9);
}

TEST_CASE("convolutions have the bytes that the literature's table gives them") {
  const auto at = megabytes(Numeric::fp16, Fusion::none);
  CHECK(at.at("convolution forward") == Approx(43.7).epsilon(0.01));
  CHECK(at.at("convolution backward weights") == Approx(43.7).epsilon(0.01));
  CHECK(at.at("convolution backward data") == Approx(41.6).epsilon(0.01));
  // The weights' gradients, parameters, momentum and copy: 22 bytes of each parameter, once a step.
  CHECK(at.at("update") == Approx(25.557 * 22 / 256).epsilon(0.03));
}

TEST_CASE("a cache keeps what a pass begins with that goes against the one before") {
  const StepProgram program =
      build_step(build_model(224, 1000), settings(256, Numeric::fp16, Fusion::addition));
  const auto moved = [](const StepProgram& step, std::int64_t cache) {
    const std::vector<std::int64_t> bytes = memory_bytes(step, cache);
    return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})) / 256 / 1e6;
  };
  constexpr std::int64_t cache = 50 << 20;
  StepProgram front_to_back = program;
  for (Operation& operation : front_to_back.micro_batch) { operation.sweep = Sweep::ascending; }
  const double opposite = moved(program, cache), same = moved(front_to_back, cache);
  WARN("MB an image behind 50 MiB: " << opposite << ", all front to back " << same);
  CHECK(opposite < 0.97 * same);
  CHECK(same < sum(megabytes(Numeric::fp16, Fusion::addition)) * 1.01);
  CHECK(moved(program, 1 << 20) == Approx(sum(megabytes(Numeric::fp16, Fusion::addition))).epsilon(0.03));
}

namespace {

/// The rows of docs/cuda-speed.md, "Bytes, launches, estimate", from the program.
std::string row_of(Fusion fusion, const char* types, double megabytes_before, int launches_before) {
  const StepProgram program = build_step(build_model(224, 1000), settings(256, Numeric::fp16, fusion));
  const auto passes = megabytes(Numeric::fp16, fusion);
  const double all = sum(passes);
  const std::vector<std::int64_t> behind = memory_bytes(program, 50 << 20);
  const double moved =
      static_cast<double>(std::accumulate(behind.begin(), behind.end(), std::int64_t{0})) / 256e6;
  const std::size_t launches = program.micro_batch.size() + program.update.size();
  // Three readings of MLPerf's figures for H100 and H200: docs/cuda-speed.md.
  const auto range = [](double megabytes_of_all) {
    const double rest = (megabytes_of_all - 129) / 4.3e3;  // ms
    const std::array<double, 3> ms{0.106 + rest * 93 / 164, 0.0877 + rest, 0.0798 + rest};
    const auto rounded = [](double milliseconds) { return std::lround(100 / milliseconds) * 10; };
    return fmt::format("{} to {}", rounded(*std::max_element(ms.begin(), ms.end())),
                       rounded(*std::min_element(ms.begin(), ms.end())));
  };
  return fmt::format("| `{}` | {} | {:.0f} | {:.0f} | {:.0f} | {} | {} | {} | {} |", to_string(fusion), types,
                     megabytes_before, all, moved, launches_before, launches, range(megabytes_before),
                     range(all));
}

}  // namespace

TEST_CASE("the table of bytes, launches and estimates in docs/cuda-speed.md is the program's") {
  std::stringstream text;
  text << std::ifstream(VIRTRAIN_SOURCE_DIR "/docs/cuda-speed.md").rdbuf();
  const std::string docs = text.str();
  // Bytes and launches before the ends of blocks, the stem and the finalizing launches were fused (f2e2f0b).
  for (const std::string& row :
       {row_of(Fusion::none, "fp16, bf16", 367, 503), row_of(Fusion::addition, "fp16, bf16", 344, 487),
        row_of(Fusion::statistics, "fp16", 323, 435), row_of(Fusion::full, "fp16", 302, 371)}) {
    CHECK_THAT(docs, virtrain::test::Contains(row));
  }
}

TEST_CASE("what sums in bf16's convolutions save at most is in docs/cuda-speed.md") {
  const Model whole = build_model(224, 1000);
  StepSettings wanted = settings(256, Numeric::bf16, Fusion::full);
  wanted.unfused = first_kinds(whole, kinds_of(Fusion::full), Numeric::bf16).unfused;
  const StepProgram program = build_step(whole, wanted);
  double all = 0;
  program.for_each([&](const Operation& operation, int) {
    all += static_cast<double>(traffic_bytes(program, operation)) / 256 / 1e6;
  });
  CHECK(all < sum(megabytes(Numeric::bf16, Fusion::addition)));
  std::stringstream text;
  text << std::ifstream(VIRTRAIN_SOURCE_DIR "/docs/cuda-speed.md").rdbuf();
  CHECK_THAT(text.str(),
             virtrain::test::Contains(fmt::format("{:.0f} MB an image and {} launches", all,
                                                  program.micro_batch.size() + program.update.size())));
}

TEST_CASE("a pass goes against what touched its largest tensor last") {
  const StepProgram program = build_step(build_model(224, 1000), settings(8, Numeric::fp16, Fusion::none));
  const auto sweep = [&](const char* name) { return operation_named(program, name).sweep; };
  CHECK(sweep("layer1.1.bn1 sums") == Sweep::descending);  // behind a convolution
  CHECK(sweep("layer1.1.bn1 apply") == Sweep::ascending);
  CHECK(sweep("layer1.1.bn1 backward sums") == Sweep::descending);
  CHECK(sweep("layer1.1.bn1 backward apply") == Sweep::ascending);
}

TEST_CASE("fp32 moves twice the activations' bytes") {
  const double in_16_bits = sum(megabytes(Numeric::bf16, Fusion::addition));
  CHECK(sum(megabytes(Numeric::tf32, Fusion::addition)) == Approx(2 * in_16_bits).epsilon(0.02));
}

TEST_CASE("bytes of single operations by hand") {
  const StepProgram program = build_step(build_model(224, 1000), settings(8, Numeric::fp16, Fusion::none));
  const auto bytes = [&](const char* name) { return traffic_bytes(program, operation_named(program, name)); };
  // 4 channels in, 64 out, weights 64 x 7 x 7 x 4
  CHECK(bytes("conv1 forward") == 2LL * (8LL * 4 * 224 * 224 + 64LL * 49 * 4 + 8LL * 64 * 112 * 112));
  // and gamma, beta, mean, deviation
  CHECK(bytes("maxpool forward") == 8LL * 64 * (2 * 112 * 112 + 2 * 56 * 56 + 56 * 56) + 4LL * 4 * 64);
}

TEST_CASE("two micro-batches move twice the bytes of one but for the update") {
  const auto all = [](int accumulate_steps, bool update) {
    const StepProgram program =
        build_step(small_model(), settings(8, Numeric::fp32, Fusion::none, accumulate_steps));
    std::int64_t bytes = 0;
    program.for_each([&](const Operation& operation, int) {
      const std::string pass = operation.pass;
      if (pass != "accumulate" && (pass == "update") == update) {
        bytes += traffic_bytes(program, operation);
      }
    });
    return bytes;
  };
  CHECK(all(2, false) == 2 * all(1, false));
  CHECK(all(2, true) == all(1, true));
}
