#include "workloads/resnet50/cuda/graph_set.h"

#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/gpu.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <vector>

namespace virtrain::resnet50::cuda {
namespace {

/// Times candidates on one stream.
class Stopwatch {
 public:
  explicit Stopwatch(CUstream_st* stream) : stream_(stream) {
    while (marks_.size() <= repetitions) marks_.emplace_back(GpuEvent::Timing::on);
  }

  /// Median of a few runs behind each other, hot. One that is far behind the best so far is run once only:
  /// strict fp32's fallbacks may take a hundred times as long.
  double seconds_of(const std::function<void()>& run, const std::optional<double>& best) const {
    constexpr double hopeless = 3;
    const double first = times(run, 1).front();
    if (best && first > hopeless * *best) return first;
    std::vector<double> seconds = times(run, repetitions);
    std::sort(seconds.begin(), seconds.end());
    return seconds[repetitions / 2];
  }

 private:
  static constexpr std::size_t repetitions = 7;

  /// All are queued behind a run that is not timed: on a stream that had run empty the host's time for a call
  /// of cuDNN would be in it, which a captured step does not have.
  std::vector<double> times(const std::function<void()>& run, std::size_t count) const {
    run();
    marks_[0].record(stream_);
    for (std::size_t i = 0; i < count; ++i) {
      run();
      marks_[i + 1].record(stream_);
    }
    marks_[count].wait();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < count; ++i) seconds.push_back(seconds_between(marks_[i], marks_[i + 1]));
    return seconds;
  }

  CUstream_st* stream_;
  std::deque<GpuEvent> marks_;  // they cannot be moved
};

/// An engine that cuDNN offers may still refuse to run: then the next one.
void choose_fastest(GraphPlan& plan, const TensorPointers& tensors, void* workspace,
                    const Stopwatch& stopwatch) {
  std::optional<double> best;
  std::optional<Error> refusal;
  for (std::size_t i = 0; i < plan.candidates(); ++i) {
    try {
      const double seconds = stopwatch.seconds_of([&] { plan.run_candidate(i, tensors, workspace); }, best);
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

GraphSet::GraphSet(const Cudnn& cudnn, const StepProgram& program, const PlanCache& cache,
                   const Progress& progress) {
  for (const GraphSpec& spec : graphs_of(program)) {
    progress("build cuDNN's engines for " + to_string(spec));
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

bool GraphSet::is_repeatable() const {
  return std::all_of(plans_.begin(), plans_.end(),
                     [](const auto& each) { return each.second.is_repeatable(); });
}

void GraphSet::tune(const StepProgram& program, const Pointers& pointers, void* workspace,
                    CUstream_st* stream, PlanCache& cache, const Progress& progress) {
  const Stopwatch stopwatch(stream);
  std::set<GraphSpec> seen;
  for (const Operation& operation : program.micro_batch) {
    const auto* const run = std::get_if<RunGraph>(&operation.action);
    if (run == nullptr || !seen.insert(run->spec).second) continue;
    progress("time cuDNN's engines for " + to_string(run->spec));
    GraphPlan& plan = plans_.at(run->spec);
    if (plan.candidates() > 1) {
      choose_fastest(plan, pointers(*run), workspace, stopwatch);
      ++timed_;
    }
    cache.set(to_string(run->spec), plan.name());
  }
}

}  // namespace virtrain::resnet50::cuda
