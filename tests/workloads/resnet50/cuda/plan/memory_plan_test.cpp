#include "workloads/resnet50/cuda/plan/memory_plan.h"

#include <algorithm>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

std::int64_t end_of(const StepProgram& program, const MemoryPlan& plan, std::size_t tensor) {
  const ProgramTensor& t = program.tensors[tensor];
  return plan.offset[tensor] + t.count * bytes_of(t.element, program.settings.numeric);
}

/// The two tensors that share memory while both are alive; "none".
std::string conflict(const StepProgram& program, const MemoryPlan& plan) {
  const std::vector<Lifetime> lives = lifetimes(program);
  for (std::size_t a = 0; a < program.tensors.size(); ++a) {
    for (std::size_t b = a + 1; b < program.tensors.size(); ++b) {
      const ProgramTensor& first = program.tensors[a];
      const ProgramTensor& second = program.tensors[b];
      if (first.view_of != no_tensor || second.view_of != no_tensor) { continue; }
      const bool together = first.persistent || second.persistent || lives[a].overlaps(lives[b]);
      if (!together || (lives[a].last < lives[a].first) != first.persistent) { continue; }
      if (plan.offset[a] < end_of(program, plan, b) && plan.offset[b] < end_of(program, plan, a)) {
        return first.name + " and " + second.name;
      }
    }
  }
  return "none";
}

double megabytes_per_image(Numeric numeric, Fusion fusion) {
  const Model model = build_model(224, 1000);
  const auto bytes = [&](int batch) {
    return plan_memory(build_step(model, settings(batch, numeric, fusion)), 0).peak_bytes;
  };
  return static_cast<double>(bytes(256) - bytes(128)) / 128 * 1e-6;
}

}  // namespace

TEST_CASE("no two tensors that live at the same time overlap, and the plan is near the least possible") {
  const Fusion fusion = GENERATE(Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full);
  const int image_size = GENERATE(32, 97, 224);
  const int batch = GENERATE(1, 7, 256);
  const int accumulate_steps = GENERATE(1, 3);
  for (const Numeric numeric : {Numeric::fp32, Numeric::fp16}) {
    CAPTURE(to_string(fusion), image_size, batch, accumulate_steps, to_string(numeric));
    const StepProgram program =
        build_step(build_model(image_size, 1000), settings(batch, numeric, fusion, accumulate_steps));
    const std::int64_t workspace = 12345;
    const MemoryPlan plan = plan_memory(program, workspace);
    CHECK(conflict(program, plan) == "none");
    const std::int64_t least = least_bytes(program, workspace);
    CHECK(plan.peak_bytes >= least);
    CHECK(static_cast<double>(plan.peak_bytes) <= 1.02 * static_cast<double>(least));
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      if (program.tensors[i].view_of == no_tensor && plan.offset[i] % memory_alignment != 0) {
        FAIL(program.tensors[i].name << " is not aligned");
      }
      const ProgramTensor& tensor = program.tensors[i];
      const std::int64_t part = tensor.count / accumulate_steps * bytes_of(tensor.element, numeric);
      if (tensor.per_micro_batch && tensor.element == Element::activation && part % 16 != 0) {
        FAIL(tensor.name << " of a later micro-batch is not aligned");
      }
      if (end_of(program, plan, i) > plan.workspace_offset) {
        FAIL(program.tensors[i].name << " reaches too far");
      }
    }
  }
}

TEST_CASE("memory per image is what counting by hand gives") {
  // facts of the model at 224 px in fp16: outputs of the convolutions 22.23 MB, inner activations 6.57, block
  // outputs 11.04, pooled stem, its positions and the images 1.00, all masks but the stem's 1.10; at most 4.8
  // MB of gradients live at once.
  const double kept = 22.23 + 6.57 + 11.04 + 1.00 + 1.10;
  CHECK(megabytes_per_image(Numeric::fp16, Fusion::none) > kept);
  CHECK(megabytes_per_image(Numeric::fp16, Fusion::none) < kept + 4.8);
  // Without the inner activations and all masks but the last block's.
  CHECK(megabytes_per_image(Numeric::fp16, Fusion::full) > kept - 6.57 - 1.10);
  CHECK(megabytes_per_image(Numeric::fp16, Fusion::full) < kept - 6.57 - 1.00 + 4.8);
  CHECK(megabytes_per_image(Numeric::fp32, Fusion::none) < 2 * (kept + 4.8));
}

TEST_CASE("what does not grow with the batch is parameters, momentum, gradients and sums") {
  const Model model = build_model(224, 1000);
  const double parameters = static_cast<double>(parameter_count(model));
  const StepProgram program = build_step(model, settings(1, Numeric::fp16, Fusion::full));
  const double fixed = static_cast<double>(plan_memory(program, 0).persistent_bytes);
  CHECK(fixed > parameters * (4 + 4 + 2 + 2));
  CHECK(fixed < parameters * (4 + 4 + 2 + 2) + 9e6);
}

TEST_CASE("the largest batch fits and the next one does not") {
  const Model model = build_model(224, 1000);
  const std::int64_t bytes = 16LL << 30, workspace = 100 << 20;
  const StepSettings wanted = settings(1, Numeric::fp16, Fusion::none);
  const int largest = largest_batch(model, wanted, bytes, workspace);
  const auto peak = [&](int batch) {
    return plan_memory(build_step(model, settings(batch, Numeric::fp16, Fusion::none)), workspace).peak_bytes;
  };
  CHECK(peak(largest) <= bytes);
  CHECK(peak(largest + 1) > bytes);
  CHECK(largest > 330);
  CHECK(largest < 420);
  CHECK(largest_batch(model, wanted, 300 << 20, 0) == 0);
  // No tensor may have more elements than engines can count, however much memory there is.
  CHECK(largest_batch(model, wanted, 1LL << 50, 0) == 2674);
}

TEST_CASE("a workspace as large as the room that is left fits, and no larger one") {
  const Model model = build_model(64, 10);
  const StepProgram program = build_step(model, settings(8, Numeric::fp32, Fusion::none));
  const std::int64_t available = (1LL << 30) + 100, room = workspace_room(program, available);
  REQUIRE(room > 0);
  CHECK(plan_memory(program, room).peak_bytes <= available);
  CHECK(plan_memory(program, room + 1).peak_bytes > available);
  CHECK(workspace_room(program, plan_memory(program, 0).peak_bytes - 1) < 0);
}

TEST_CASE("a batch that cannot fit is refused with the largest that does") {
  const Model model = build_model(224, 1000);
  const StepProgram program = build_step(model, settings(4096, Numeric::fp16, Fusion::full));
  CHECK_THROWS_WITH(
      require_fit(model, program, 16LL << 30, 0),
      virtrain::test::Matches(".*batch 4096 does not fit in 16\\.0 GiB; the largest that does is [0-9]+"));
  CHECK(workspace_room(program, 16LL << 30) < 0);
  CHECK_THROWS_WITH(require_fit(model, program, 100 << 20, 0),
                    virtrain::test::Contains("not even one image does"));
  CHECK_NOTHROW(
      require_fit(model, build_step(model, settings(64, Numeric::fp16, Fusion::full)), 16LL << 30, 0));
}
