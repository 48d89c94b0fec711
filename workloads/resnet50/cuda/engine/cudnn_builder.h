#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "workloads/resnet50/cuda/program/graph_spec.h"

struct cudnnContext;

/// cudnn-frontend behind one small interface: its header takes half a minute to compile, so one source
/// includes it.
namespace virtrain::resnet50::cuda {

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

/// One GraphSpec in cuDNN's terms, with the plans that its heuristics name: the best first, then its
/// fallbacks.
class BuiltGraph {
 public:
  /// For the GPU of this handle, which must outlive the graph.
  BuiltGraph(const GraphSpec& spec, cudnnContext* handle);
  /// For a GPU that need not be there.
  BuiltGraph(const GraphSpec& spec, const DeviceDescription& device);
  ~BuiltGraph();
  BuiltGraph(BuiltGraph&&) noexcept;
  BuiltGraph& operator=(BuiltGraph&&) noexcept;

  /// 0 where cuDNN refuses the whole graph.
  std::int64_t offered() const;
  /// cuDNN's words for what it refused last.
  const std::string& refusal() const;

  /// Properties of one plan, by its place; nothing or false where cuDNN refuses.
  std::optional<std::string> name(std::int64_t index);
  bool is_runtime_compiled(std::int64_t index) const;
  /// Equal inputs give equal bits.
  bool is_repeatable(std::int64_t index) const;
  bool build(std::int64_t index);
  std::optional<std::int64_t> workspace_bytes(std::int64_t index);

  /// Throws Error(io) with cuDNN's words.
  void execute(std::int64_t index, const TensorPointers& tensors, void* workspace) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace virtrain::resnet50::cuda
