#include "workloads/resnet50/cuda/graph_set.h"

#include "workloads/resnet50/cuda/gpu.h"
#include "workloads/resnet50/cuda/gpu_errors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace virtrain::resnet50::cuda {
namespace {

/// Median of a few runs behind each other, hot.
double seconds_of(const GraphPlan& plan, std::size_t candidate, const TensorPointers& tensors,
                  void* workspace, CUstream_st* stream) {
  constexpr std::size_t repetitions = 7;
  const EventHandle begin(EventHandle::Timing::on), end(EventHandle::Timing::on);
  plan.run_candidate(candidate, tensors, workspace);
  std::array<double, repetitions> seconds{};
  for (double& each : seconds) {
    begin.record(stream);
    plan.run_candidate(candidate, tensors, workspace);
    end.record(stream);
    end.wait();
    each = seconds_between(begin, end);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[repetitions / 2];
}

/// An engine that cuDNN offers may still refuse to run: then the next one.
void choose_fastest(GraphPlan& plan, const TensorPointers& tensors, void* workspace, CUstream_st* stream) {
  std::optional<double> best;
  std::optional<Error> refusal;
  for (std::size_t i = 0; i < plan.candidates(); ++i) {
    try {
      const double seconds = seconds_of(plan, i, tensors, workspace, stream);
      if (best && seconds >= *best) continue;
      best = seconds;
      plan.choose(i);
    } catch (const GpuFault&) {
      throw;
    } catch (const Error& error) {
      refusal = error;
    }
  }
  if (!best) throw Error(*refusal);
}

}  // namespace

GraphSet::GraphSet(const Cudnn& cudnn, const StepProgram& program, const PlanCache& cache) {
  for (const GraphSpec& spec : graphs_of(program)) {
    GraphPlan plan(cudnn.build(spec), cache.find(to_string(spec)));
    if (!plan.found()) {
      refusal_ = to_string(spec) + ": " + plan.refusal();
      return;
    }
    plans_.emplace(spec, std::move(plan));
  }
}

std::int64_t GraphSet::workspace_bytes() const {
  std::int64_t most = 0;
  for (const auto& [spec, plan] : plans_) most = std::max(most, plan.workspace_bytes());
  return most;
}

void GraphSet::tune(const StepProgram& program, const Pointers& pointers, void* workspace,
                    CUstream_st* stream, PlanCache& cache) {
  std::set<GraphSpec> seen;
  for (const Operation& operation : program.micro_batch) {
    const auto* const run = std::get_if<RunGraph>(&operation.action);
    if (run == nullptr || !seen.insert(run->spec).second) continue;
    GraphPlan& plan = plans_.at(run->spec);
    if (plan.candidates() > 1) {
      choose_fastest(plan, pointers(*run), workspace, stream);
      ++timed_;
    }
    cache.set(to_string(run->spec), plan.name());
  }
}

}  // namespace virtrain::resnet50::cuda
