#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/interpreter/training_case.h"
#include "tests/workloads/resnet50/cuda/program/small_model.h"
#include "workloads/resnet50/cpu/network.h"
#include "workloads/resnet50/cpu/operations/elementwise.h"
#include "workloads/resnet50/cuda/plan/fusion.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

// The GPU's program of a step, interpreted on the CPU in the memory that its plan gives it, against the CPU
// trainer's network (which is held against PyTorch elsewhere): proves what is fed to what, before any GPU has
// run it.

using virtrain::Precision;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;
using namespace virtrain::resnet50::cuda::plain;

namespace {

/// Each value by one rounding, every `period`th up and the others down.
void nudge(std::vector<float>& values, std::size_t period) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::nextafter(values[i], i % period == 0 ? HUGE_VALF : -HUGE_VALF);
  }
}

/// As the CPU trainer does it: all shards one after the other on one rank.
Outcome reference(const TrainingCase& run, std::size_t nudged = 0) {
  const int shards = run.ranks * run.settings.accumulate_steps;
  cpu::Device device(Precision::fp32);
  cpu::Network network(device, run.model, run.settings.batch);
  cpu::ParameterStore store(device, parameters(run.model), network.parameter_layouts());
  network.attach(store);
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    store.set(i, initial_value(store.parameters()[i], i, 1, residual_gamma));
  }
  Outcome outcome;
  for (int step = 0; step < run.steps; ++step) {
    std::vector<float> sum(store.all_gradients().size());
    double loss = 0;
    for (int index = 0; index < shards; ++index) {
      Batch batch = shard(run, index);
      if (nudged > 0) { nudge(batch.images, nudged); }
      loss += network.forward(network.prepare_images(batch.images), batch.labels) / shards;
      network.backward([](std::size_t) {});
      cpu::accumulate(sum, store.all_gradients());
    }
    outcome.losses.push_back(loss);
    cpu::sgd(store.all_masters(), store.all_velocities(), sum,
             {learning_rate, static_cast<float>(sgd_momentum), static_cast<float>(weight_decay),
              1.0F / static_cast<float>(shards)});
  }
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const std::vector<float> values = store.plain_master(i);
    outcome.state[store.parameters()[i].name] = {values.begin(), values.end()};
  }
  const std::vector<BatchNorm> all = norms(run.model);
  const auto running = network.running_statistics();
  for (std::size_t i = 0; i < all.size(); ++i) {
    outcome.state[all[i].name + ".running_mean"] = {running[i].mean.begin(), running[i].mean.end()};
    outcome.state[all[i].name + ".running_var"] = {running[i].variance.begin(), running[i].variance.end()};
  }
  return outcome;
}

}  // namespace

TEST_CASE("a step's program trains as the CPU trainer does, whatever is fused or accumulated") {
  const int accumulate_steps = GENERATE(1, 2);
  const int odd = GENERATE(0, 1);  // then a micro-batch's images have padding behind them
  TrainingCase run{small_model(32 + odd), settings(6 + odd, Numeric::fp32, Fusion::none, accumulate_steps)};
  const Outcome expected = reference(run);
  for (const Fusion fusion : {Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full}) {
    CAPTURE(to_string(fusion), accumulate_steps, odd);
    run.settings.fusion = fusion;
    const Outcome actual = interpret(run);
    CHECK(loss_distance(actual, expected) < 1e-5);
    CHECK(worst_distance(actual, expected) < 1e-4);
    CHECK(actual.losses.back() < actual.losses.front());
  }
}

TEST_CASE("16-bit programs with narrow copies and gradients follow it within their precision") {
  const auto [numeric, fusion, loss_scale] =
      GENERATE(table<Numeric, Fusion, float>({{Numeric::bf16, Fusion::addition, 1.0F},
                                              {Numeric::bf16, Fusion::full, 1.0F},
                                              {Numeric::fp16, Fusion::statistics, 1.0F},
                                              {Numeric::fp16, Fusion::full, 1024.0F}}));
  TrainingCase run{small_model(), settings(6, numeric, fusion, 2)};
  run.settings.unfused = first_kinds(run.model, kinds_of(fusion), numeric).unfused;
  run.steps = 1;
  const StepProgram program = build_step(run.model, run.settings);
  CAPTURE(to_string(numeric), to_string(fusion));
  const Outcome actual = interpret(run, program, plan_memory(program, 0), loss_scale);
  const Outcome expected = reference(run);
  CHECK(loss_distance(actual, expected) < (numeric == Numeric::fp16 ? 2e-3 : 2e-2));
  CHECK(change_distance(run, actual, expected) < (numeric == Numeric::fp16 ? 1e-1 : 3e-1));
}

TEST_CASE("ranks that reduce their gradients equal one rank that accumulates all shards") {
  const int accumulate_steps = GENERATE(1, 2);
  const Fusion fusion = GENERATE(Fusion::none, Fusion::full);
  CAPTURE(accumulate_steps, to_string(fusion));
  TrainingCase run{small_model(), settings(4, Numeric::fp32, fusion, accumulate_steps), 2};
  run.settings.ranks = 2;
  run.settings.bucket_bytes = 4096;
  const Outcome actual = interpret(run);
  Outcome expected = reference(run);
  // Running statistics are each rank's own.
  std::erase_if(expected.state,
                [&](const auto& entry) { return entry.first.find("running") != std::string::npos; });
  Outcome parameters_only = actual;
  std::erase_if(parameters_only.state,
                [&](const auto& entry) { return entry.first.find("running") != std::string::npos; });
  CHECK(loss_distance(actual, expected) < 1e-5);
  CHECK(worst_distance(parameters_only, expected) < 1e-4);
}

TEST_CASE("levels of fusion may be mixed, shape by shape") {
  TrainingCase run{small_model(), settings(6, Numeric::fp32, Fusion::full, 1)};
  const Outcome expected = reference(run);
  const std::set<std::string> as_in_bf16 =
      first_kinds(run.model, kinds_of(Fusion::full), Numeric::bf16).unfused;
  run.settings.unfused = GENERATE_COPY(
      std::set<std::string>{"norm 8->8 8x8 k3 s1", "tail 32->8 8x8 k1 s1"},
      std::set<std::string>{"statistics 8->32 8x8 k1 s1", "norm 8->32 8x8 k1 s1"},
      std::set<std::string>{"tail 32->16 8x8 k1 s1", "mask 32->16 8x8 k1 s1", "addition 32->8 8x8 k1 s1"},
      std::set<std::string>{"norm_gradient 8->8 8x8 k3 s1", "statistics 8->8 8x8 k3 s1"}, as_in_bf16);
  const StepProgram whole = build_step(run.model, settings(6, Numeric::fp32, Fusion::full, 1));
  CHECK(graphs_of(build_step(run.model, run.settings)) != graphs_of(whole));
  const Outcome actual = interpret(run);
  CHECK(loss_distance(actual, expected) < 1e-5);
  CHECK(worst_distance(actual, expected) < 1e-4);
}

TEST_CASE("a step whose graphs cuDNN lacks here and there trains as any other") {
  TrainingCase run{small_model(), settings(6, Numeric::fp32, Fusion::full, 1)};
  run.steps = 2;
  const Outcome expected = reference(run);
  std::mt19937 generator(7);
  for (int trial = 0; trial < 6; ++trial) {
    run.settings.unfused.clear();
    std::map<GraphSpec, bool> is_refused;
    std::vector<GraphSpec> refused;
    do {
      for (const GraphSpec& spec : graphs_of(build_step(run.model, run.settings))) {
        if (is_refused.try_emplace(spec, fusion_site(spec) && generator() % 3 == 0).first->second) {
          refused.push_back(spec);
        }
      }
    } while (leave_apart(run.settings, refused));
    CAPTURE(to_text({run.settings.fusion, run.settings.unfused}));
    CHECK_FALSE(run.settings.unfused.empty());
    const Outcome actual = interpret(run);
    CHECK(loss_distance(actual, expected) < 1e-5);
    CHECK(worst_distance(actual, expected) < 1e-4);
  }
}

TEST_CASE("two ranks in fp16 train as one that accumulates, and an overflow of one stops both") {
  TrainingCase run{small_model(), settings(4, Numeric::fp16, Fusion::full, 1), 2};
  run.settings.ranks = 2;
  run.steps = 1;
  const StepProgram program = build_step(run.model, run.settings);
  const MemoryPlan plan = plan_memory(program, 0);
  CHECK(initial_loss_scale(run.settings) == 2048);
  const Outcome actual = interpret(run, program, plan, initial_loss_scale(run.settings));
  CHECK(change_distance(run, actual, reference(run)) < 1e-1);

  std::vector<StepInterpreter> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    StepInterpreter& memory = ranks.emplace_back(program, plan);
    set_parameters(run, program, memory);
    set_batch(run, program, memory, rank, 0);
    memory.loss_scale().scale = rank == 0 ? 2048 : 1e30F;  // of one rank only: its gradients are infinite
  }
  const Values before = ranks[0].get(program.handles.weights.masters);
  run_step(program, ranks);
  for (StepInterpreter& rank : ranks) {
    CHECK(rank.get(program.handles.weights.masters) == before);
    CHECK(rank.loss_scale().skipped_steps == 1);
  }
  CHECK(ranks[0].loss_scale().scale == 1024);
}

TEST_CASE("a step that overflows changes no parameter and halves the loss scale") {
  TrainingCase run{small_model(), settings(6, Numeric::fp16, Fusion::full, 1)};
  run.steps = 1;
  const StepProgram program = build_step(run.model, run.settings);
  const MemoryPlan plan = plan_memory(program, 0);
  std::vector<StepInterpreter> ranks{StepInterpreter(program, plan)};
  set_parameters(run, program, ranks[0]);
  set_batch(run, program, ranks[0], 0, 0);
  ranks[0].loss_scale().scale = 1e30F;
  const Values before = ranks[0].get(program.handles.weights.masters);
  run_step(program, ranks);
  CHECK(ranks[0].get(program.handles.weights.masters) == before);
  CHECK(ranks[0].loss_scale().scale == 5e29F);
  CHECK(ranks[0].loss_scale().skipped_steps == 1);
  ranks[0].loss_scale().scale = 128;
  run_step(program, ranks);
  CHECK(ranks[0].get(program.handles.weights.masters) != before);
}

TEST_CASE("ResNet-50 itself takes the same step, everything fused") {
  TrainingCase run{build_model(32, 10), settings(4, Numeric::fp32, Fusion::full, 1)};
  run.steps = 1;
  const Outcome expected = reference(run);
  const Outcome actual = interpret(run);
  // Norms over four values each, one behind the other: what a single rounding of the images makes of the
  // loss, by other processors' order of additions more and by others' less, is what two right programs may
  // differ by.
  double of_roundings = 0;
  for (const std::size_t period : {2, 3, 5}) {
    of_roundings = std::max(of_roundings, loss_distance(reference(run, period), expected));
  }
  CAPTURE(of_roundings);
  CHECK(of_roundings < 1e-4);
  CHECK(loss_distance(actual, expected) < 4 * of_roundings);
  CHECK(change_distance(run, actual, expected) <
        1e-1);  // its gradients are ill-conditioned: fp32's own error
}

TEST_CASE("tensors that share memory by mistake, and a wrong order, are seen") {
  const TrainingCase run{small_model(), settings(6, Numeric::fp32, Fusion::addition, 1)};
  const Outcome expected = reference(run);
  const StepProgram program = build_step(run.model, run.settings);
  MemoryPlan plan = plan_memory(program, 0);
  // A saved activation where a later one lies.
  const auto find = [&](const std::string& name) {
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      if (program.tensors[i].name == name) { return i; }
    }
    FAIL("no tensor " << name);
    return std::size_t{0};
  };
  plan.offset[find("layer1.0.conv1.y")] = plan.offset[find("layer1.3.conv3.y")];
  CHECK(worst_distance(interpret(run, program, plan), expected) > 1e-2);

  StepProgram swapped = program;
  std::swap(swapped.micro_batch[swapped.micro_batch.size() - 1],
            swapped.micro_batch[swapped.micro_batch.size() - 2]);
  CHECK(worst_distance(interpret(run, swapped, plan_memory(program, 0)), expected) > 1e-2);
}
