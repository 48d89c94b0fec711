#pragma once

#include <chrono>

#include "common/model/canary_messages.h"

namespace virtrain::canary {

/// Longest time for a scan, where it needs more than the targets.
inline constexpr std::chrono::milliseconds scan_time{40'000};

/// Tries all targets at the same time, scans ports and listens for broadcast canaries all the while.
Reached try_to_reach(const ReachRequest& request);

}  // namespace virtrain::canary
