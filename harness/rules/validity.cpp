#include "harness/rules/validity.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/model/workload.h"
#include "harness/rules/validity_rules.h"

namespace virtrain::harness {
namespace {

/// Bytes of all gradients in fp32, and in the two bytes of fp16 or bf16.
constexpr std::int64_t whole_gradient_bytes = resnet50_parameters * 4,
                       half_gradient_bytes = resnet50_parameters * 2;

/// The CUDA trainer reduces weights' gradients in the activations' type, the CPU's reduces fp32.
bool may_reduce_in_two_bytes(const Workload& workload) {
  return workload.backend == Backend::cuda &&
         (workload.precision == Precision::fp16 || workload.precision == Precision::bf16);
}

/// Bytes that a rank claims to have given to the others in each step, where that is believable. The claim
/// comes from a guest: it may not lower the demand below half, nor raise it so far that the sums overflow.
std::int64_t claimed_gradient_bytes(const RankState& rank) {
  if (!rank.result) { return whole_gradient_bytes; }
  const auto claim = rank.result->bytes_allreduced_per_step.value_or(whole_gradient_bytes);
  return std::clamp(claim, half_gradient_bytes, whole_gradient_bytes);
}

/// Adds the findings of the rules whose severity makes a trial invalid, or of the others.
void add_findings(const TrialEvidence& trial, bool invalidating, std::vector<std::string>& into) {
  for (const auto& rule : validity_rules()) {
    const bool invalidates = rule.severity == Severity::blocks || rule.severity == Severity::invalidates;
    if (invalidates != invalidating) { continue; }
    for (const auto& words : rule.look(trial)) { into.push_back(fmt::format("{}: {}", rule.id, words)); }
  }
}

}  // namespace

std::int64_t gradient_bytes_per_step(const Workload& workload, const std::vector<RankState>& ranks) {
  if (!may_reduce_in_two_bytes(workload) || ranks.empty()) { return whole_gradient_bytes; }
  std::int64_t most = 0;
  for (const auto& rank : ranks) { most = std::max(most, claimed_gradient_bytes(rank)); }
  return most;
}

std::int64_t all_reduce_bytes_per_node(std::int64_t nodes, std::int64_t steps, std::int64_t gradient_bytes) {
  return nodes < 2 ? 0 : steps * (2 * (nodes - 1) * gradient_bytes / nodes);
}

std::vector<std::string> invalid_reasons(const TrialEvidence& trial) {
  std::vector<std::string> reasons;
  add_findings(trial, true, reasons);
  return reasons;
}

std::vector<std::string> remarks(const TrialEvidence& trial) {
  std::vector<std::string> found;
  add_findings(trial, false, found);
  return found;
}

}  // namespace virtrain::harness
