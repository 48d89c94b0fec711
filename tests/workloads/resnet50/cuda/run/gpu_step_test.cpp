#include <cuda_runtime_api.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/workloads/resnet50/cuda/interpreter/training_case.h"
#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/peers/peers.h"
#include "workloads/resnet50/cuda/engine/graph_set.h"
#include "workloads/resnet50/cuda/run/gpu.h"
#include "workloads/resnet50/cuda/run/parameter_transfer.h"
#include "workloads/resnet50/cuda/run/step_executor.h"
#include "workloads/resnet50/cuda/run/step_profile.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

// The same program by the GPU and by the interpreter: cuDNN's engines and our kernels in one captured step.
// Needs a GPU.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;
using namespace virtrain::resnet50::cuda::plain;

namespace {

Gpu require_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    test::skip(std::string("no GPU: ") + cudaGetErrorString(status));
  }
  LonePeer alone;
  return take_gpu(alone);
}

/// One for all tests: what one has found out about an engine, the next one need not time again.
PlanCache& plan_cache() {
  static PlanCache cache("/nonexistent/plans.json", "test");
  return cache;
}

/// Made with the first test that needs a GPU, and its handles once.
const ComputeStream& compute() {
  static const ComputeStream all;
  return all;
}

const Progress untold = [](const std::string&) {};

/// At the level of fusion of `settings`, or the highest below it for which cuDNN has all engines here.
void build_highest(std::optional<StepExecutor>& executor, const Model& model, StepSettings& settings) {
  while (true) {
    try {
      executor.emplace(compute(), model, settings, nullptr, plan_cache(), untold);
      return;
    } catch (const Error& error) {
      if (settings.fusion == Fusion::none) { throw; }
      WARN(to_string(settings.fusion) << " is not possible: " << error.what());
      settings.fusion = static_cast<Fusion>(static_cast<int>(settings.fusion) - 1);
    }
  }
}

Outcome train_on_gpu(const TrainingCase& run, StepSettings& settings, float loss_scale) {
  std::optional<StepExecutor> built;
  build_highest(built, run.model, settings);
  StepExecutor& executor = *built;
  executor.warm_up();
  write_initial_state(executor, run.model, case_seed, residual_gamma, rule(settings.accumulate_steps));
  LossScale scale;
  scale.scale = loss_scale;
  executor.write(executor.program().handles.loss_scale, std::as_bytes(std::span(&scale, 1)));
  for (int m = 0; m < settings.accumulate_steps; ++m) { write_batch(executor, shard(run, m), m); }
  executor.capture();
  Outcome outcome;
  for (int step = 0; step < run.steps; ++step) {
    executor.launch();
    outcome.losses.push_back(executor.finish().loss);
  }
  const std::vector<Parameter> all = parameters(run.model);
  const auto values = read_parameters(executor, run.model);
  for (std::size_t i = 0; i < all.size(); ++i) {
    outcome.state[all[i].name] = {values[i].begin(), values[i].end()};
  }
  const std::vector<BatchNorm> all_norms = norms(run.model);
  const auto running = read_running_statistics(executor);
  for (std::size_t i = 0; i < all_norms.size(); ++i) {
    outcome.state[all_norms[i].name + ".running_mean"] = {running[i].mean.begin(), running[i].mean.end()};
    outcome.state[all_norms[i].name + ".running_var"] = {running[i].variance.begin(),
                                                         running[i].variance.end()};
  }
  return outcome;
}

}  // namespace

TEST_CASE("the GPU takes the steps that the interpreter takes") {
  const Gpu gpu = require_gpu();
  const auto [numeric, loss_scale, tolerance] =
      GENERATE(table<Numeric, float, double>({{Numeric::fp32, 1.0F, 1e-3},
                                              {Numeric::tf32, 1.0F, 1e-1},
                                              {Numeric::bf16, 1.0F, 3e-1},
                                              {Numeric::fp16, 1024.0F, 1e-1}}));
  const Fusion fusion = GENERATE(Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full);
  const int accumulate_steps = GENERATE(1, 2);
  if (!is_possible(numeric, gpu.compute_capability)) { return; }
  if (fusion > highest_fusion(numeric, gpu.compute_capability)) { return; }
  TrainingCase run{small_model(), settings(8, numeric, fusion, accumulate_steps)};
  run.steps = 2;
  const Outcome actual = train_on_gpu(run, run.settings, loss_scale);
  CAPTURE(to_string(numeric), to_string(fusion), to_string(run.settings.fusion), accumulate_steps);
  const StepProgram program = build_step(run.model, run.settings);
  const Outcome expected = interpret(run, program, plan_memory(program, 0), loss_scale);
  CHECK(loss_distance(actual, expected) < tolerance);
  CHECK(change_distance(run, actual, expected) < tolerance);
}

TEST_CASE("the GPU takes ResNet-50's step, everything fused that this GPU can fuse") {
  const Gpu gpu = require_gpu();
  // Of 8 images of 32 px, whose last layers have one pixel, gradients in fp16 are 0.47 from those in fp32 by
  // the interpreter alone, and 0.37 from those of a GPU at each level (an H200); these are better
  // conditioned.
  TrainingCase run{build_model(64, 10),
                   settings(16, Numeric::fp16, highest_fusion(Numeric::fp16, gpu.compute_capability), 1)};
  run.steps = 1;
  const Outcome actual = train_on_gpu(run, run.settings, 1024);
  const StepProgram program = build_step(run.model, run.settings);
  const Outcome expected = interpret(run, program, plan_memory(program, 0), 1024);
  CAPTURE(to_string(run.settings.fusion));
  CHECK(loss_distance(actual, expected) < 1e-2);
  CHECK(change_distance(run, actual, expected) < 3e-1);  // its gradients are ill-conditioned
}

TEST_CASE("each operation of a step has its time") {
  require_gpu();
  const TrainingCase run{small_model(), settings(8, Numeric::fp32, Fusion::none)};
  StepExecutor executor(compute(), run.model, run.settings, nullptr, plan_cache(), untold);
  executor.warm_up();
  write_initial_state(executor, run.model, case_seed, residual_gamma, rule(1));
  write_batch(executor, shard(run, 0), 0);
  const std::vector<OperationTime> times = time_operations(executor);
  CHECK(times.size() == executor.program().micro_batch.size() + executor.program().update.size());
  for (const OperationTime& time : times) {
    CAPTURE(time.operation->name);
    CHECK(time.seconds > 0);
  }
}

TEST_CASE("a capture that an exception leaves forbids nothing afterwards") {
  require_gpu();
  const GpuStream stream;
  const DeviceMemory memory = allocate_device(1 << 20);
  const auto fail = [&] {
    const StreamCapture capture(stream.get());
    throw Error("queue", ErrorCode::io, "failed");
  };
  CHECK_THROWS_AS(fail(), Error);
  CHECK(cudaMemset(memory.get(), 0, 1 << 20) == cudaSuccess);
  CHECK_NOTHROW(allocate_device(1 << 20));
  StreamCapture again(stream.get());
  CHECK(cudaMemsetAsync(memory.get(), 0, 1 << 20, stream.get()) == cudaSuccess);
  CUgraphExec_st* const noted = again.end();
  CHECK(cudaGraphLaunch(noted, stream.get()) == cudaSuccess);
  stream.wait();
  cudaGraphExecDestroy(noted);
}

TEST_CASE("a failure that was told is not found again by the next launch") {
  require_gpu();
  const auto refused = [] { return cudaEventDestroy(nullptr); };
  const cudaError_t status = refused();
  REQUIRE(status != cudaSuccess);
  CHECK_THROWS_AS(check_gpu("destroy nothing", status), Error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  ignore_gpu(refused());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a batch that the GPU cannot hold is refused before anything is allocated") {
  const Gpu gpu = require_gpu();
  StepSettings wanted = settings(4096, Numeric::fp32, Fusion::none, 1);
  CHECK_THROWS_WITH(StepExecutor(compute(), build_model(1024, 1000), wanted, nullptr, plan_cache(), untold),
                    virtrain::test::Contains("batch 4096 does not fit") &&
                        virtrain::test::Contains(gpu.name.empty() ? "?" : "largest"));
}
