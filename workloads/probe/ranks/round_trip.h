#pragma once

#include <cstdint>

#include "workloads/common/peers/peers.h"
#include "workloads/probe/figure.h"

namespace virtrain::probe {

/// Messages of `bytes` there and back between ranks 0 and 1, `warmup` + `counted` times: the median is the
/// figure, the least is in its detail; every byte of every answer is checked. All ranks call it; the times
/// are rank 0's.
Figure measure_round_trip(Peers& peers, std::uint64_t bytes, int warmup, int counted);

}  // namespace virtrain::probe
