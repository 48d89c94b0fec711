#pragma once

#include <cstdint>

#include "workloads/common/peers/peers.h"
#include "workloads/common/watchdog.h"
#include "workloads/probe/flags.h"

namespace virtrain::probe {

inline constexpr const char* executable = "virtrain-probe";

/// Measures what the flags name and writes tables or records; rank 0 writes for all ranks. The watchdog is
/// told where ranks wait for each other, or the host for a GPU. Returns the number of wrong elements. A
/// failure is told, and ends all ranks.
std::int64_t run(const Flags& flags, Peers& peers, Watchdog& watchdog);

}  // namespace virtrain::probe
