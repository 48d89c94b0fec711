#pragma once

#include <cstdint>
#include <string>

#include "workloads/common/affinity.h"
#include "workloads/common/peers/peers.h"

/// Values that all ranks of a job have to agree on.
namespace virtrain::resnet50 {

/// Ranks on one host with the same mask (mpirun --bind-to none) divide its cores among themselves.
ThreadPlacement place_this_rank(Peers& peers, int requested_threads);

/// Throws Error(trial_failed) with the advice unless all ranks have the same value (of `what`).
void check_same_on_all_ranks(Peers& peers, std::uint64_t value, const std::string& what,
                             const std::string& advice);

/// "00ff…": how records show a hash.
std::string hex(std::uint64_t value);

}  // namespace virtrain::resnet50
