#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/model/check.h"
#include "harness/evidence/trial_evidence.h"
#include "harness/plan/placement.h"

namespace virtrain::harness {

/// Why a trial that ran to its end must not be compared, each with the id of its rule; empty if it may.
std::vector<std::string> invalid_reasons(const TrialEvidence& trial);
/// Findings that do not make the trial invalid.
std::vector<std::string> remarks(const TrialEvidence& trial);

/// Bytes of ResNet-50's gradients that a tenant's ranks reduce in a step: 102 MB (fp32), or of backend cuda
/// in fp16 or bf16 what its ranks say (the most of them), if that is no less than two bytes a parameter. A
/// rank that says nothing of use counts as fp32.
std::int64_t gradient_bytes_per_step(const Workload& workload, const std::vector<RankState>& ranks);

/// Bytes each node of a tenant must send for `steps` all-reduces of its gradients over `nodes` nodes:
/// 2 (N-1)/N of them a step (the bandwidth-optimal all-reduce). 0 for one node.
std::int64_t all_reduce_bytes_per_node(std::int64_t nodes, std::int64_t steps, std::int64_t gradient_bytes);

/// One row of what is judged of a trial when it has ended, by what really happened: what the doctor cannot
/// see because it takes a guest, or a run. Severities are the doctor's (blocks, invalidates: the trial is
/// invalid; warns: it is noted only), and so are ids of what both look at; where the evidence is absent (a
/// trial without GPUs) a rule has nothing to say.
struct ValidityRule : CheckRow {
  std::vector<std::string> (*look)(const TrialEvidence& trial);  ///< what is wrong, a sentence each
};

/// All of them.
std::span<const ValidityRule> validity_rules();

}  // namespace virtrain::harness
