#pragma once

#include "workloads/probe/flags.h"
#include "workloads/probe/peers.h"

#include <cstdint>

namespace virtrain::probe {

/// Measures what the flags name and writes tables or records; rank 0 writes for all ranks. Returns the
/// number of wrong elements. Throws Error.
std::int64_t run(const Flags& flags, Peers& peers);

}  // namespace virtrain::probe
