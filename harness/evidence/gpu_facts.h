#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/evidence/rank_output.h"
#include "results/store/records.h"

namespace virtrain::harness {

/// Facts from the CUDA trainer's ranks in one node about their GPUs, libraries and fusion, by the names of
/// results/comparison/guard/comparability.cpp; where ranks differ, their values in order, joined by ", ". A
/// missing value has no entry. Text that is long or not printable, and numbers that no GPU has, count as
/// missing: a guest is not to be trusted. A vGPU's UUID and VBIOS are left out: they are made up for each VM
/// and do not identify the card.
std::map<std::string, std::string> gpu_facts(const std::vector<const RankState*>& ranks);

/// Readings of the ranks' GPUs while steps were counted, for their node: means over the ranks, the power of
/// all its GPUs together. They stand at the end of the last rank's last sample, which is within the time that
/// a comparison looks at. Nothing where no rank has samples.
std::vector<results::Telemetry> gpu_telemetry(const std::vector<const RankState*>& ranks);

}  // namespace virtrain::harness
