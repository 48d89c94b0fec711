#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/resnet50/cuda/engine/cudnn_builder.h"
#include "workloads/resnet50/cuda/program/graph_spec.h"

struct CUstream_st;

/// cuDNN's graphs on the GPU of this process.
namespace virtrain::resnet50::cuda {

/// cuDNN itself, on one stream: a handle for each thread that builds graphs, since none may be used by two at
/// once.
class Cudnn {
 public:
  /// Throws Error(host_unable) with cuDNN's words.
  explicit Cudnn(CUstream_st* stream);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  std::size_t threads() const { return handles_.size(); }
  BuiltGraph build(const GraphSpec& spec, std::size_t thread = 0) const;

 private:
  int gpu_ = 0;
  std::vector<cudnnContext*> handles_;
};

/// More than most engines want that are worth it: on an A100 the backward pass with the norm's sums wants 400
/// MB at batch 128.
inline constexpr std::int64_t most_workspace_bytes = 1LL << 30;

/// One graph with the engines that cuDNN offers for it here.
class GraphPlan {
 public:
  /// Builds each engine that the heuristics name, once, or only `wanted` (the name of an earlier
  /// run's choice) where it is still there. Engines that want more workspace than `most_bytes` are left out;
  /// where all do, the one that wants the least is taken, and whether the batch fits is for the memory plan
  /// to say. Engines that do not repeat bit by bit are taken only where cuDNN has no other.
  GraphPlan(BuiltGraph graph, const std::optional<std::string>& wanted,
            std::int64_t most_bytes = most_workspace_bytes);

  /// False: cuDNN has no engine, in these words.
  bool found() const { return !candidates_.empty(); }
  const std::string& refusal() const { return graph_.refusal(); }

  std::size_t candidates() const { return candidates_.size(); }
  /// The largest workspace of all candidates, until one is chosen.
  std::int64_t workspace_bytes() const;
  void run_candidate(std::size_t index, const TensorPointers& tensors, void* workspace) const;
  const std::string& name_of(std::size_t index) const { return candidates_[index].name; }
  void choose(std::size_t index) { chosen_ = index; }
  const std::string& name() const { return name_of(chosen_); }
  bool is_repeatable() const { return graph_.is_repeatable(candidates_[chosen_].index); }
  void run(const TensorPointers& tensors, void* workspace) const {
    run_candidate(chosen_, tensors, workspace);
  }

 private:
  struct Candidate {
    std::int64_t index = 0;  ///< in cuDNN's list
    std::string name;
    std::int64_t workspace_bytes = 0;
  };
  /// Conditions that make an engine a candidate.
  struct Terms {
    std::optional<std::string> name;
    std::int64_t most_bytes = 0;
    bool repeatable = true;  ///< false: any
  };
  void collect(const Terms& terms);
  void collect_least(bool repeatable);

  BuiltGraph graph_;
  std::vector<Candidate> candidates_;
  std::size_t chosen_ = 0;
};

}  // namespace virtrain::resnet50::cuda
