#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/workloads/resnet50/cuda/interpreter/step_interpreter.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/model.h"

/// One training run of a step's program, to be run in several ways and compared.
namespace virtrain::resnet50::cuda::plain {

inline constexpr std::uint64_t case_seed = 1;
inline constexpr float learning_rate = 0.05F;
inline constexpr double residual_gamma = 0.5;

struct TrainingCase {
  Model model;
  StepSettings settings;
  int ranks = 1;
  int steps = 3;
};

/// Losses of each step (mean over ranks and micro-batches), then parameters and running statistics by name.
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, Values> state;
};

Batch shard(const TrainingCase& run, int index);
SgdRule rule(int accumulate_steps);

/// By the interpreter, in the memory that the plan gives.
Outcome interpret(const TrainingCase& run, const StepProgram& program, const MemoryPlan& plan,
                  float loss_scale = 1);
Outcome interpret(const TrainingCase& run);
/// Memory with initial parameters and data of one rank.
void set_parameters(const TrainingCase& run, const StepProgram& program, StepInterpreter& memory);
void set_batch(const TrainingCase& run, const StepProgram& program, StepInterpreter& memory, int rank,
               int micro);

/// |a - b| / |b| of the worst entry of the state.
double worst_distance(const Outcome& actual, const Outcome& expected);
/// |change a - change b| / |change b| of all parameters together. A single bias says little in 16 bits: the
/// norm behind it all but cancels its gradient.
double change_distance(const TrainingCase& run, const Outcome& actual, const Outcome& expected);
double loss_distance(const Outcome& actual, const Outcome& expected);

}  // namespace virtrain::resnet50::cuda::plain
