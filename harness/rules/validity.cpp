#include "harness/rules/validity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/model/workload.h"
#include "common/text/printable.h"
#include "harness/rules/throughput_check.h"
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

/// The node of a rank, and that node's first one.
std::pair<const NodeEvidence*, std::int64_t> place_of_rank(const TenantEvidence& tenant, std::int64_t rank) {
  std::int64_t first = 0;
  for (const auto& node : tenant.nodes) {
    if (rank < first + node.ranks) { return {&node, first}; }
    first += node.ranks;
  }
  return {nullptr, first};
}

void check_rank(const TrialEvidence& trial, const TenantEvidence& tenant, std::size_t index,
                std::vector<std::string>& reasons) {
  const auto& rank = tenant.ranks[index];
  const auto label = fmt::format("{} rank {}", tenant.name, index);
  if (!rank.hello || !rank.ready || !rank.result) {
    reasons.push_back(label + " did not report");
    return;
  }
  const auto& hello = *rank.hello;
  const auto number = static_cast<std::int64_t>(index);
  const auto [node, first] = place_of_rank(tenant, number);
  const auto expect = [&](const char* field, std::int64_t seen, std::int64_t wanted) {
    if (seen != wanted) {
      reasons.push_back(fmt::format("{} says {} {} where {} was planned", label, field, seen, wanted));
    }
  };
  expect("rank", hello.rank, number);
  expect("size", hello.size, static_cast<std::int64_t>(tenant.ranks.size()));
  expect("local_rank", hello.local_rank, number - first);
  const auto planned = node == nullptr           ? "no node"
                       : node->host_name.empty() ? node->hostname
                                                 : node->host_name;
  if (hello.hostname != planned) {
    reasons.push_back(fmt::format("{} ran on {} where {} was planned", label, printable(hello.hostname),
                                  printable(planned)));
  }
  if (rank.result->parameters_hash == rank.ready->parameters_hash) {
    reasons.push_back(label + " did not change its parameters");
  }
  for (const auto& window : rank.samples) {
    if (!window.loss || !std::isfinite(*window.loss)) {
      reasons.push_back(label + " has no finite loss");
      break;
    }
  }
  for (const auto& doubt :
       throughput_doubts(rank, tenant.images_per_rank, tenant.released_ns, trial.standstill_seconds)) {
    reasons.push_back(fmt::format("{} {}", label, doubt));
  }
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

std::vector<std::string> invalid_reasons(const TrialEvidence& trial,
                                         const std::set<std::string>& host_boot_ids) {
  std::vector<std::string> reasons;
  std::set<std::string> guest_boots;
  for (const auto& tenant : trial.tenants) {
    for (std::size_t r = 0; r < tenant.ranks.size(); ++r) { check_rank(trial, tenant, r, reasons); }
    for (const auto& doubt : tenant.job_doubts) {
      reasons.push_back(fmt::format("{}: {}", tenant.name, doubt));
    }
    std::set<std::string> before, after;
    for (const auto& rank : tenant.ranks) {
      if (rank.ready) { before.insert(rank.ready->parameters_hash); }
      if (rank.result) { after.insert(rank.result->parameters_hash.value_or("")); }
    }
    if (before.size() > 1 || after.size() > 1) {
      reasons.push_back(tenant.name + ": its ranks hold different parameters");
    }
    if (tenant.network_bytes_measured.value_or(0) < tenant.network_bytes_required) {
      reasons.push_back(tenant.network_bytes_measured
                            ? fmt::format("{}: its network carried {} bytes a node, the all-reduces need {}",
                                          tenant.name, *tenant.network_bytes_measured,
                                          tenant.network_bytes_required)
                            : tenant.name + ": what its network carried could not be read");
    }
    for (const auto& node : tenant.nodes) {
      if (!node.has_own_kernel) { continue; }
      if (node.boot_id.empty() || host_boot_ids.contains(node.boot_id)) {
        reasons.push_back(fmt::format("{} {} has no boot id of its own", tenant.name, node.hostname));
      } else if (!guest_boots.insert(node.boot_id).second) {
        reasons.push_back(
            fmt::format("{} {} shares its boot id with another VM", tenant.name, node.hostname));
      }
    }
  }
  add_findings(trial, true, reasons);
  return reasons;
}

std::vector<std::string> remarks(const TrialEvidence& trial) {
  std::vector<std::string> found;
  add_findings(trial, false, found);
  return found;
}

}  // namespace virtrain::harness
