#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <utility>

#include "harness/evidence/trial_evidence.h"
#include "harness/trial/live_trial.h"

namespace virtrain::harness {

/// Asks the host, once the ranks have ended, for what only it has seen of the trial.
asio::awaitable<void> ask_hosts(LiveTrial& trial);

/// Gathers the evidence about a trial whose ranks have ended and whose tenants are stored, for the rules of
/// validity.
TrialEvidence gather_evidence(LiveTrial& trial);

/// From the first to the last counted step of any rank.
std::pair<std::int64_t, std::int64_t> counted_interval(LiveTrial& trial);

/// Bytes that each of the tenant's nodes must have sent for its all-reduces, and those that they did on
/// average; nothing where that could not be read.
std::int64_t network_bytes_required(const LiveTenant& tenant);
std::optional<std::int64_t> network_bytes_measured(const LiveTenant& tenant);

}  // namespace virtrain::harness
