#include "tests/workloads/resnet50/cuda/interpreter/training_case.h"

#include <cmath>

#include "tests/support/catch.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

namespace virtrain::resnet50::cuda::plain {
namespace {

void add_state(const TrainingCase& run, const StepProgram& program, const StepInterpreter& memory,
               Outcome& outcome) {
  const std::vector<Parameter> all = parameters(run.model);
  for (const ParameterSlice& slice : program.parameters.slices) {
    const bool weights = slice.group == ParameterGroup::weights;
    const Values block =
        memory.get(weights ? program.handles.weights.masters : program.handles.vectors.masters);
    const std::vector<float> stored(block.begin() + slice.first, block.begin() + slice.first + slice.count);
    const std::vector<float> values = to_plain_order(all[slice.parameter], stored);
    outcome.state[all[slice.parameter].name] = {values.begin(), values.end()};
  }
  const std::vector<BatchNorm> all_norms = norms(run.model);
  for (std::size_t i = 0; i < all_norms.size(); ++i) {
    outcome.state[all_norms[i].name + ".running_mean"] = memory.get(program.handles.norms[i].running_mean);
    outcome.state[all_norms[i].name + ".running_var"] = memory.get(program.handles.norms[i].running_variance);
  }
}

}  // namespace

Batch shard(const TrainingCase& run, int index) {
  return synthetic_batch(run.model, run.settings.batch, static_cast<std::uint64_t>(index), 1);
}

SgdRule rule(int accumulate_steps) {
  return {learning_rate, static_cast<float>(sgd_momentum), static_cast<float>(weight_decay),
          1.0F / static_cast<float>(accumulate_steps)};
}

void set_parameters(const TrainingCase& run, const StepProgram& program, StepInterpreter& memory) {
  const std::vector<Parameter> all = parameters(run.model);
  for (const ParameterGroup group : {ParameterGroup::weights, ParameterGroup::vectors}) {
    const StepHandles::Block& block =
        group == ParameterGroup::weights ? program.handles.weights : program.handles.vectors;
    Values values(static_cast<std::size_t>(program.parameters.count(group)));
    for (const ParameterSlice& slice : program.parameters.slices) {
      if (slice.group != group) { continue; }
      const auto stored = to_device_order(
          all[slice.parameter], initial_value(all[slice.parameter], slice.parameter, 1, residual_gamma));
      std::copy(stored.begin(), stored.end(), values.begin() + slice.first);
    }
    memory.set(block.masters, values);
    if (block.copy != no_tensor) { memory.set(block.copy, values); }
  }
  for (std::size_t i = 0; i < program.handles.norms.size(); ++i) {
    const NormRefs& norm = program.handles.norms[i];
    memory.set(norm.running_variance,
               Values(static_cast<std::size_t>(program.at(norm.running_variance).count), 1));
  }
  memory.rule() = rule(run.settings.accumulate_steps);
}

void set_batch(const TrainingCase& run, const StepProgram& program, StepInterpreter& memory, int rank,
               int micro) {
  const Batch batch = shard(run, rank * run.settings.accumulate_steps + micro);
  const auto size = static_cast<std::size_t>(run.model.image_size), pixels = size * size;
  // Its part of the tensor, with the padding behind it.
  Values images(
      static_cast<std::size_t>(program.at(program.handles.images).count / run.settings.accumulate_steps));
  for (std::size_t i = 0; i < batch.images.size(); ++i) {
    const std::size_t n = i / (3 * pixels), c = i / pixels % 3;
    images[(n * pixels + i % pixels) * padded_image_channels + c] = batch.images[i];
  }
  memory.set(program.handles.images, images, micro);
  memory.set(program.handles.labels, Values(batch.labels.begin(), batch.labels.end()), micro);
}

Outcome interpret(const TrainingCase& run, const StepProgram& program, const MemoryPlan& plan,
                  float loss_scale) {
  std::vector<StepInterpreter> ranks;
  for (int rank = 0; rank < run.ranks; ++rank) {
    StepInterpreter& memory = ranks.emplace_back(program, plan);
    set_parameters(run, program, memory);
    memory.loss_scale().scale = loss_scale;
    for (int m = 0; m < run.settings.accumulate_steps; ++m) { set_batch(run, program, memory, rank, m); }
  }
  Outcome outcome;
  for (int step = 0; step < run.steps; ++step) {
    run_step(program, ranks);
    double loss = 0;
    for (const StepInterpreter& memory : ranks) {
      for (int m = 0; m < run.settings.accumulate_steps; ++m) {
        loss += memory.get(program.handles.losses, m)[0];
      }
    }
    outcome.losses.push_back(loss / (run.ranks * run.settings.accumulate_steps));
  }
  add_state(run, program, ranks[0], outcome);
  // Ranks hold the same parameters, bit for bit.
  for (StepInterpreter& memory : ranks) {
    CHECK(memory.get(program.handles.weights.masters) == ranks[0].get(program.handles.weights.masters));
  }
  return outcome;
}

Outcome interpret(const TrainingCase& run) {
  const StepProgram program = build_step(run.model, run.settings);
  return interpret(run, program, plan_memory(program, 0));
}

double worst_distance(const Outcome& actual, const Outcome& expected) {
  double worst = 0;
  REQUIRE(actual.state.size() == expected.state.size());
  for (const auto& [name, values] : expected.state) {
    const Values& other = actual.state.at(name);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += (other[i] - values[i]) * (other[i] - values[i]);
      size += values[i] * values[i];
    }
    const double distance = std::sqrt(difference / size);
    worst = std::isnan(distance) ? HUGE_VAL : std::max(worst, distance);
  }
  return worst;
}

double change_distance(const TrainingCase& run, const Outcome& actual, const Outcome& expected) {
  double difference = 0, size = 0;
  const std::vector<Parameter> all = parameters(run.model);
  for (std::size_t p = 0; p < all.size(); ++p) {
    const std::vector<float> before = initial_value(all[p], p, 1, residual_gamma);
    const Values& ours = actual.state.at(all[p].name);
    const Values& theirs = expected.state.at(all[p].name);
    for (std::size_t i = 0; i < before.size(); ++i) {
      difference += (ours[i] - theirs[i]) * (ours[i] - theirs[i]);
      size += (theirs[i] - before[i]) * (theirs[i] - before[i]);
    }
  }
  const double distance = std::sqrt(difference / size);
  return std::isnan(distance) ? HUGE_VAL : distance;
}

double loss_distance(const Outcome& actual, const Outcome& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    const double distance = std::abs(actual.losses[i] / expected.losses[i] - 1);
    worst = std::isnan(distance) ? HUGE_VAL : std::max(worst, distance);
  }
  return worst;
}

}  // namespace virtrain::resnet50::cuda::plain
