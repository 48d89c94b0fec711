#include "workloads/resnet50/cuda/engine/graph_set.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "workloads/common/cuda/gpu.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/engine/in_threads.h"

namespace virtrain::resnet50::cuda {
namespace {

struct DestroyGraph {
  void operator()(CUgraphExec_st* graph) const { ignore_gpu(cudaGraphExecDestroy(graph)); }
};
using CapturedRuns = std::unique_ptr<CUgraphExec_st, DestroyGraph>;

/// Times candidates on one stream, captured as the step will be: a call of cuDNN takes the host longer than
/// small convolutions take the GPU, and an engine that cannot be captured is none for us.
class Stopwatch {
 public:
  explicit Stopwatch(CUstream_st* stream) : stream_(stream) {
    while (marks_.size() <= launches) { marks_.emplace_back(GpuEvent::Timing::on); }
  }

  /// Seconds of one run, the median over a few launches of some, hot. One that is far behind the best so far
  /// is run no further: strict fp32's fallbacks may take a hundred times as long.
  double seconds_of(const std::function<void()>& run, const std::optional<double>& best) const {
    constexpr double hopeless = 2, of_the_host = 100e-6;
    run();  // kernels load, which a capture must not
    marks_[0].record(stream_);
    run();
    marks_[1].record(stream_);
    marks_[1].wait();
    const double first = seconds_between(marks_[0], marks_[1]);
    if (best && first > hopeless * *best + of_the_host) { return first; }
    return median_of_launches(capture(run));
  }

 private:
  // Ten runs, so that one that was disturbed decides nothing; two together hide what a launch costs.
  static constexpr std::size_t launches = 5, runs_of_a_launch = 2;

  CapturedRuns capture(const std::function<void()>& run) const {
    StreamCapture capture(stream_);
    for (std::size_t i = 0; i < runs_of_a_launch; ++i) { run(); }
    return CapturedRuns(capture.end());
  }

  double median_of_launches(const CapturedRuns& runs) const {
    const auto launch = [&] { check_gpu("launch an engine", cudaGraphLaunch(runs.get(), stream_)); };
    launch();
    marks_[0].record(stream_);
    for (std::size_t i = 0; i < launches; ++i) {
      launch();
      marks_[i + 1].record(stream_);
    }
    marks_[launches].wait();
    std::array<double, launches> seconds{};
    for (std::size_t i = 0; i < launches; ++i) { seconds[i] = seconds_between(marks_[i], marks_[i + 1]); }
    std::sort(seconds.begin(), seconds.end());
    return seconds[launches / 2] / runs_of_a_launch;
  }

  CUstream_st* stream_;
  std::deque<GpuEvent> marks_;  // they cannot be moved
};

/// An operation's sums, which an engine must write whatever was there.
using Sums = std::vector<std::pair<void*, std::size_t>>;

/// Whether one of them is no number.
bool has_nan(const Sums& sums, CUstream_st* stream) {
  for (const auto& [memory, count] : sums) {
    std::vector<float> values(count);
    check_gpu("read sums",
              cudaMemcpyAsync(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    check_gpu("read sums", cudaStreamSynchronize(stream));
    if (std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); })) {
      return true;
    }
  }
  return false;
}

/// Throws where the engine adds to what it finds: sums that begin as NaN stay so, those that begin as zero do
/// not.
void require_fresh_sums(const std::string& engine, const std::function<void()>& run, const Sums& sums,
                        CUstream_st* stream) {
  const auto has_nan_after = [&](int byte) {
    for (const auto& [memory, count] : sums) {
      check_gpu("fill sums", cudaMemsetAsync(memory, byte, count * sizeof(float), stream));
    }
    run();
    return has_nan(sums, stream);
  };
  constexpr int nan_byte = 0xff;
  if (has_nan_after(nan_byte) && !has_nan_after(0)) {
    throw Error(engine, ErrorCode::host_unable, "it adds its sums to what was there before");
  }
}

/// An engine that cuDNN offers may still refuse to run: then the next one. A GPU that has faulted may say so
/// as cuDNN's refusal first, and what it names is not the engine.
void choose_fastest(GraphPlan& plan, const std::string& graph, const TensorPointers& tensors,
                    const Sums& sums, void* workspace, CUstream_st* stream) {
  const Stopwatch stopwatch(stream);
  std::optional<double> best;
  std::optional<Error> refusal;
  for (std::size_t i = 0; i < plan.candidates(); ++i) {
    const std::string operation = "time " + plan.name_of(i) + " of " + graph;
    const auto run = [&] { plan.run_candidate(i, tensors, workspace); };
    try {
      require_fresh_sums(operation, run, sums, stream);
      const double seconds = stopwatch.seconds_of(run, best);
      if (best && seconds >= *best) { continue; }
      best = seconds;
      plan.choose(i);
    } catch (const GpuFault& fault) {
      throw GpuFault(Error(operation, fault.code(), fault.what()));
    } catch (const Error& error) {
      check_gpu(operation, cudaStreamSynchronize(stream));
      refusal = error;
    }
  }
  if (!best) { throw Error(*refusal); }
}

Sums sums_of(const RunGraph& run, const StepProgram& program, const TensorPointers& tensors) {
  Sums sums;
  if (!has_sums(run.spec.kind)) { return sums; }
  for (const auto& [id, tensor] : run.tensors) {
    if (is_sum(id)) { sums.emplace_back(tensors.at(id), static_cast<std::size_t>(program.at(tensor).count)); }
  }
  return sums;
}

}  // namespace

void GraphSet::build(const Cudnn& cudnn, const StepProgram& program, std::int64_t most_bytes,
                     const PlanCache& cache, const Progress& progress) {
  has_room_ = most_bytes >= most_workspace_bytes;
  const std::vector<GraphSpec> needed = graphs_of(program);
  std::erase_if(plans_, [&](const auto& plan) {
    return std::find(needed.begin(), needed.end(), plan.first) == needed.end();
  });
  std::vector<GraphSpec> specs;
  std::copy_if(needed.begin(), needed.end(), std::back_inserter(specs),
               [&](const GraphSpec& spec) { return !plans_.contains(spec) && !refused_.contains(spec); });
  std::vector<std::optional<GraphPlan>> plans(specs.size());
  std::mutex telling;
  in_threads(specs.size(), cudnn.threads(), [&](std::size_t i, std::size_t thread) {
    {
      const std::lock_guard lock(telling);
      progress("build cuDNN's engines for " + to_string(specs[i]));
    }
    plans[i].emplace(
        specs[i], [&](SumsAs sums) { return cudnn.build(specs[i], thread, sums); },
        cache.find(to_string(specs[i])), most_bytes);
  });
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (plans[i]->found()) {
      plans_.emplace(specs[i], std::move(*plans[i]));
    } else {
      refused_.emplace(specs[i], plans[i]->refusal());
    }
  }
}

std::vector<GraphSpec> GraphSet::refused() const {
  std::vector<GraphSpec> specs;
  for (const auto& [spec, words] : refused_) { specs.push_back(spec); }
  return specs;
}

std::string GraphSet::refusal(const StepProgram& program) const {
  for (const GraphSpec& spec : graphs_of(program)) {
    const auto refused = refused_.find(spec);
    if (refused != refused_.end()) { return to_string(spec) + ": " + refused->second; }
  }
  return "";
}

std::int64_t GraphSet::workspace_bytes() const {
  std::int64_t most = 0;
  for (const auto& [spec, plan] : plans_) { most = std::max(most, plan.workspace_bytes()); }
  return most;
}

bool GraphSet::is_repeatable() const {
  return std::all_of(plans_.begin(), plans_.end(), [](const auto& each) {
    return !has_sums(each.first.kind) && each.second.is_repeatable();
  });
}

bool GraphSet::tune(const StepProgram& program, const Prepare& prepare, void* workspace, CUstream_st* stream,
                    PlanCache& cache, const Progress& progress) {
  bool all_run = true;
  std::set<GraphSpec> seen;
  for (const Operation& operation : program.micro_batch) {
    const std::optional<RunGraph>& run = operation.graph;
    if (!run || !seen.insert(run->spec).second) { continue; }
    const std::string graph = to_string(run->spec);
    progress("time cuDNN's engines for " + graph);
    GraphPlan& plan = plans_.at(run->spec);
    if (plan.candidates() > 1) {
      try {
        const TensorPointers tensors = prepare(*run);
        choose_fastest(plan, graph, tensors, sums_of(*run, program, tensors), workspace, stream);
      } catch (const GpuFault&) { throw; } catch (const Error& error) {
        refused_.emplace(run->spec, error.what());
        plans_.erase(run->spec);
        all_run = false;
        continue;
      }
      ++timed_;
    }
    if (has_room_ || !cache.find(graph)) { cache.set(graph, plan.name()); }
  }
  return all_run;
}

StreamCapture::StreamCapture(CUstream_st* stream) : stream_(stream) {
  // The mode captures this thread alone: the watchdog and NCCL's threads go on calling CUDA.
  check_gpu("begin to capture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
StreamCapture::~StreamCapture() {
  if (stream_ == nullptr) { return; }
  cudaGraph_t graph = nullptr;
  ignore_gpu(cudaStreamEndCapture(stream_, &graph));
  if (graph != nullptr) { ignore_gpu(cudaGraphDestroy(graph)); }
}
CUgraphExec_st* StreamCapture::end() {
  cudaGraph_t graph = nullptr;
  check_gpu("end the capture", cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph));
  cudaGraphExec_t runnable = nullptr;
  // The flag keeps the priority of work that a stream of high priority has queued.
  const cudaError_t status = cudaGraphInstantiate(&runnable, graph, cudaGraphInstantiateFlagUseNodePriority);
  ignore_gpu(cudaGraphDestroy(graph));
  check_gpu("make a graph of what was captured", status);
  return runnable;
}

}  // namespace virtrain::resnet50::cuda
