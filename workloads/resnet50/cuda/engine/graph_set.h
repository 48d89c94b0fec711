#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "workloads/resnet50/cuda/engine/cudnn_plan.h"
#include "workloads/resnet50/cuda/engine/plan_cache.h"
#include "workloads/resnet50/cuda/program/step_program.h"

struct CUstream_st;
struct CUgraphExec_st;

namespace virtrain::resnet50::cuda {

/// While this lives, CUDA records the work that this thread queues on a stream, and does not run it. Left
/// before end(), by an exception, the work is dropped: a thread that goes on capturing may not even free
/// memory.
class StreamCapture {
 public:
  explicit StreamCapture(CUstream_st* stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  /// Returns the recorded work, to be launched as often as wanted. The caller destroys it.
  CUgraphExec_st* end();

 private:
  CUstream_st* stream_;  ///< null once it has ended
};

/// Told what comes now, before each part of a work that lasts.
using Progress = std::function<void(const std::string& doing)>;

/// The graphs of a program with their engines on this GPU.
class GraphSet {
 public:
  /// Asks cuDNN for each graph that is not there yet, on all cores: it compiles some engines for up to a
  /// second each. What the cache knows is taken from there. Engines that want more workspace than
  /// `most_bytes` only where there are no others. Graphs that the program does not need go.
  void build(const Cudnn& cudnn, const StepProgram& program, std::int64_t most_bytes, const PlanCache& cache,
             const Progress& progress);

  /// All graphs for which cuDNN had no engine that runs, of any program so far.
  std::vector<GraphSpec> refused() const;
  /// The first of this program's, with cuDNN's words; empty if all are there.
  std::string refusal(const StepProgram& program) const;
  std::int64_t workspace_bytes() const;

  /// Times the candidates of each graph where its tensors lie, keeps the fastest, here and in the cache; what
  /// was found there with more room stays. Returns false where one has no engine that runs: it is refused
  /// then. `prepare` fills the tensors, anew for each graph (what the one
  /// before has written may be infinite), and says where they are.
  using Prepare = std::function<TensorPointers(const RunGraph&)>;
  bool tune(const StepProgram& program, const Prepare& prepare, void* workspace, CUstream_st* stream,
            PlanCache& cache, const Progress& progress);

  void run(const RunGraph& graph, const TensorPointers& tensors, void* workspace) const {
    plans_.at(graph.spec).run(tensors, workspace);
  }
  const std::string& engine_of(const RunGraph& graph) const { return plans_.at(graph.spec).name(); }
  std::size_t size() const { return plans_.size(); }
  /// Equal inputs give equal bits, by each engine.
  bool is_repeatable() const;
  /// Graphs that had more than one candidate to time.
  std::size_t timed() const { return timed_; }

 private:
  std::map<GraphSpec, GraphPlan> plans_;
  std::map<GraphSpec, std::string> refused_;
  std::size_t timed_ = 0;
  bool has_room_ = true;  ///< for all workspaces that are worth it
};

}  // namespace virtrain::resnet50::cuda
