#pragma once

#include "common/enum_text.h"

namespace virtrain::probe {

VIRTRAIN_ENUM_CLASS(Collective, all_reduce, all_gather, broadcast)

/// The rank whose values a broadcast carries.
inline constexpr int broadcast_root = 0;

/// Bus bandwidth over algorithm bandwidth: what a link must carry at least, so that different numbers of
/// ranks compare (NVIDIA/nccl-tests, doc/PERFORMANCE.md): 2 (n - 1) / n, (n - 1) / n, 1.
double bus_factor(Collective collective, int ranks);

}  // namespace virtrain::probe
