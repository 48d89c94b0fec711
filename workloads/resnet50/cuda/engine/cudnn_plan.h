#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/resnet50/cuda/program/graph_spec.h"

struct CUstream_st;
struct cudnnContext;

/// cuDNN's graphs on the GPU of this process.

namespace virtrain::resnet50::cuda {

// cudnn-frontend behind one small interface: its header takes half a minute to compile, so one source
// includes it.

/// "9.19.0"
std::string cudnn_version();

/// Where the tensors of a graph lie on the GPU.
using TensorPointers = std::map<TensorId, void*>;

/// A kind of GPU as cuDNN describes it. Made from JSON (of a real GPU, or
/// tests/workloads/resnet50/cuda/devices/*.json), so that engines can be asked for where there is no GPU.
class DeviceDescription {
 public:
  /// Throws Error(bad_input) with cuDNN's words if a key is missing.
  explicit DeviceDescription(const std::string& json_text);
  ~DeviceDescription();
  DeviceDescription(DeviceDescription&&) noexcept;
  DeviceDescription& operator=(DeviceDescription&&) noexcept;

 private:
  friend class BuiltGraph;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// In which of cuDNN's terms a graph asks for the sums that a norm needs. Engines differ by it: nodes of
/// their own are served by precompiled ones, for fp16 on some GPUs; reductions by those that cuDNN compiles
/// at run time, for all types.
enum class SumsAs { node, reductions };

/// One GraphSpec in cuDNN's terms, with the plans that its heuristics name: the best first, then its
/// fallbacks.
class BuiltGraph {
 public:
  /// For the GPU of this handle, which must outlive the graph.
  BuiltGraph(const GraphSpec& spec, cudnnContext* handle, SumsAs sums = SumsAs::node);
  /// For a GPU that need not be there.
  BuiltGraph(const GraphSpec& spec, const DeviceDescription& device, SumsAs sums = SumsAs::node);
  ~BuiltGraph();
  BuiltGraph(BuiltGraph&&) noexcept;
  BuiltGraph& operator=(BuiltGraph&&) noexcept;

  /// 0 where cuDNN refuses the whole graph.
  std::int64_t offered() const;
  /// cuDNN's words for what it refused last.
  const std::string& refusal() const;

  SumsAs sums() const;

  /// Properties of one plan, by its place; nothing or false where cuDNN refuses.
  std::optional<std::string> name(std::int64_t index);
  bool is_runtime_compiled(std::int64_t index) const;
  /// Equal inputs give equal bits.
  bool is_repeatable(std::int64_t index) const;
  /// False for one that the type of number forbids.
  bool is_selected(std::int64_t index) const;
  /// Once: what has failed is not compiled again.
  bool build(std::int64_t index);
  std::optional<std::int64_t> workspace_bytes(std::int64_t index);

  /// Throws Error(io) with cuDNN's words.
  void execute(std::int64_t index, const TensorPointers& tensors, void* workspace) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

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
  BuiltGraph build(const GraphSpec& spec, std::size_t thread = 0, SumsAs sums = SumsAs::node) const;

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

  /// Asks in those terms in turn that cuDNN may have engines for: of a graph with sums as reductions as well,
  /// where it has none otherwise, and of 1x1 convolutions, which bytes bind and not arithmetic.
  using Ask = std::function<BuiltGraph(SumsAs)>;
  GraphPlan(const GraphSpec& spec, const Ask& ask, const std::optional<std::string>& wanted,
            std::int64_t most_bytes = most_workspace_bytes);

  /// False: cuDNN has no engine, in these words.
  bool found() const { return !candidates_.empty(); }
  const std::string& refusal() const { return graphs_.back().refusal(); }

  std::size_t candidates() const { return candidates_.size(); }
  /// The largest workspace of all candidates, until one is chosen.
  std::int64_t workspace_bytes() const;
  void run_candidate(std::size_t index, const TensorPointers& tensors, void* workspace) const;
  const std::string& name_of(std::size_t index) const { return candidates_[index].name; }
  void choose(std::size_t index) { chosen_ = index; }
  const std::string& name() const { return name_of(chosen_); }
  bool is_repeatable() const {
    return graphs_[candidates_[chosen_].graph].is_repeatable(candidates_[chosen_].index);
  }
  void run(const TensorPointers& tensors, void* workspace) const {
    run_candidate(chosen_, tensors, workspace);
  }

 private:
  struct Candidate {
    std::size_t graph = 0;
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
  /// Adds the candidates of the last graph.
  void collect_from(BuiltGraph graph, const std::optional<std::string>& wanted, std::int64_t most_bytes);
  static std::vector<Candidate> collect(BuiltGraph& graph, const Terms& terms);
  static std::vector<Candidate> least(BuiltGraph& graph, bool repeatable);

  std::vector<BuiltGraph> graphs_;
  std::vector<Candidate> candidates_;
  std::size_t chosen_ = 0;
};

}  // namespace virtrain::resnet50::cuda
