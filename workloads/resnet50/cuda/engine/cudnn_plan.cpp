#include "workloads/resnet50/cuda/engine/cudnn_plan.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "workloads/common/cuda/cublas.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/processor.h"

namespace virtrain::resnet50::cuda {
namespace {

void check_cudnn(const std::string& operation, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) { return; }
  throw Error(operation, ErrorCode::host_unable, std::string("cuDNN: ") + cudnnGetErrorString(status));
}

}  // namespace

Cudnn::Cudnn(CUstream_st* stream) {
  constexpr std::size_t most_threads = 8;  // a handle takes memory of the GPU
  load_cublas_lt(reinterpret_cast<const void*>(&cudnnCreate));
  check_gpu("find the GPU", cudaGetDevice(&gpu_));
  handles_.resize(std::clamp<std::size_t>(allowed_cpus().size(), 1, most_threads), nullptr);
  for (cudnnContext*& handle : handles_) {
    check_cudnn("start cuDNN", cudnnCreate(&handle));
    check_cudnn("give cuDNN a stream", cudnnSetStream(handle, stream));
  }
}
Cudnn::~Cudnn() {
  for (cudnnContext* const handle : handles_) { cudnnDestroy(handle); }
}

BuiltGraph Cudnn::build(const GraphSpec& spec, std::size_t thread, SumsAs sums) const {
  check_gpu("take the GPU", cudaSetDevice(gpu_));  // each thread begins with the first one
  return {spec, handles_.at(thread), sums};
}

namespace {

/// Engines of a graph with reductions that are built: each takes a second or more to compile, and the
/// heuristics name the best first.
constexpr std::size_t most_compiled = 2;
constexpr std::string_view of_reductions = "reductions ";

}  // namespace

GraphPlan::GraphPlan(BuiltGraph graph, const std::optional<std::string>& wanted, std::int64_t most_bytes) {
  collect_from(std::move(graph), wanted, most_bytes);
}

GraphPlan::GraphPlan(const GraphSpec& spec, const Ask& ask, const std::optional<std::string>& wanted,
                     std::int64_t most_bytes) {
  const bool wants_reductions = wanted && wanted->starts_with(of_reductions);
  if (wants_reductions && has_sums(spec.kind)) {
    collect_from(ask(SumsAs::reductions), wanted, most_bytes);
    if (candidates_.size() == 1 && candidates_.front().name == *wanted) { return; }
    graphs_.clear();
    candidates_.clear();
  }
  collect_from(ask(SumsAs::node), wanted, most_bytes);
  const bool is_known = wanted && found() && candidates_.front().name == *wanted;
  if (has_sums(spec.kind) && !is_known && (!found() || spec.kernel == 1)) {
    collect_from(ask(SumsAs::reductions), std::nullopt, most_bytes);
  }
}

void GraphPlan::collect_from(BuiltGraph graph, const std::optional<std::string>& wanted,
                             std::int64_t most_bytes) {
  std::vector<Candidate> all;
  for (const bool repeatable : {true, false}) {
    if (wanted) { all = collect(graph, {wanted, most_bytes, repeatable}); }
    if (all.empty()) { all = collect(graph, {std::nullopt, most_bytes, repeatable}); }
    if (all.empty()) { all = least(graph, repeatable); }
    if (!all.empty()) { break; }
  }
  for (Candidate& candidate : all) {
    candidate.graph = graphs_.size();
    candidates_.push_back(candidate);
  }
  graphs_.push_back(std::move(graph));
}

std::vector<GraphPlan::Candidate> GraphPlan::collect(BuiltGraph& graph, const Terms& terms) {
  std::vector<Candidate> candidates;
  std::set<std::string> seen;  // the fallbacks name some of the heuristics' engines again
  for (std::int64_t i = 0; i < graph.offered(); ++i) {
    std::optional<std::string> name = graph.name(i);
    if (name && graph.sums() == SumsAs::reductions) {
      if (candidates.size() == most_compiled) { break; }
      name->insert(0, of_reductions);
    }
    if (!name || (terms.name && *name != *terms.name) || seen.contains(*name)) { continue; }
    if (terms.repeatable && !graph.is_repeatable(i)) { continue; }
    if (!graph.build(i)) { continue; }
    const std::optional<std::int64_t> bytes = graph.workspace_bytes(i);
    if (!bytes || *bytes > terms.most_bytes) { continue; }
    seen.insert(*name);
    candidates.push_back({0, i, *name, *bytes});
  }
  return candidates;
}

std::vector<GraphPlan::Candidate> GraphPlan::least(BuiltGraph& graph, bool repeatable) {
  auto all = collect(graph, {std::nullopt, std::numeric_limits<std::int64_t>::max(), repeatable});
  if (all.empty()) { return all; }
  return {*std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.workspace_bytes < b.workspace_bytes;
  })};
}

std::int64_t GraphPlan::workspace_bytes() const {
  std::int64_t most = 0;
  for (const Candidate& candidate : candidates_) { most = std::max(most, candidate.workspace_bytes); }
  return most;
}

void GraphPlan::run_candidate(std::size_t index, const TensorPointers& tensors, void* workspace) const {
  const Candidate& candidate = candidates_[index];
  graphs_[candidate.graph].execute(candidate.index, tensors, workspace);
}

}  // namespace virtrain::resnet50::cuda
