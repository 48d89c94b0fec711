#include "workloads/resnet50/cuda/engine/cudnn_plan.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <limits>
#include <set>
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

BuiltGraph Cudnn::build(const GraphSpec& spec, std::size_t thread) const {
  check_gpu("take the GPU", cudaSetDevice(gpu_));  // each thread begins with the first one
  return {spec, handles_.at(thread)};
}

GraphPlan::GraphPlan(BuiltGraph graph, const std::optional<std::string>& wanted, std::int64_t most_bytes)
    : graph_(std::move(graph)) {
  for (const bool repeatable : {true, false}) {
    if (wanted) { collect({wanted, most_bytes, repeatable}); }
    if (candidates_.empty()) { collect({std::nullopt, most_bytes, repeatable}); }
    if (candidates_.empty()) { collect_least(repeatable); }
    if (!candidates_.empty()) { return; }
  }
}

void GraphPlan::collect(const Terms& terms) {
  std::set<std::string> seen;  // the fallbacks name some of the heuristics' engines again
  for (std::int64_t i = 0; i < graph_.offered(); ++i) {
    const std::optional<std::string> name = graph_.name(i);
    if (!name || (terms.name && *name != *terms.name) || seen.contains(*name)) { continue; }
    if (terms.repeatable && !graph_.is_repeatable(i)) { continue; }
    if (!graph_.build(i)) { continue; }
    const std::optional<std::int64_t> bytes = graph_.workspace_bytes(i);
    if (!bytes || *bytes > terms.most_bytes) { continue; }
    seen.insert(*name);
    candidates_.push_back({i, *name, *bytes});
  }
}

void GraphPlan::collect_least(bool repeatable) {
  collect({std::nullopt, std::numeric_limits<std::int64_t>::max(), repeatable});
  if (candidates_.empty()) { return; }
  const auto least = std::min_element(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.workspace_bytes < b.workspace_bytes; });
  candidates_ = {Candidate(*least)};
}

std::int64_t GraphPlan::workspace_bytes() const {
  std::int64_t most = 0;
  for (const Candidate& candidate : candidates_) { most = std::max(most, candidate.workspace_bytes); }
  return most;
}

void GraphPlan::run_candidate(std::size_t index, const TensorPointers& tensors, void* workspace) const {
  graph_.execute(candidates_[index].index, tensors, workspace);
}

}  // namespace virtrain::resnet50::cuda
