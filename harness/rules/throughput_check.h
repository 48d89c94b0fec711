#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/evidence/rank_output.h"

namespace virtrain::harness {

/// Why a rank's figure of its own speed is not to be believed; empty if nothing speaks against it. Its
/// samples must count the images that were planned and show the same speed, and must have come over as much
/// of our own clock as they say they took: nothing in a guest can change that one.
/// `standstill_seconds`: for so long what ranks said may have waited to be read.
std::vector<std::string> throughput_doubts(const RankState& rank, std::int64_t images_planned,
                                           std::int64_t released_ns, double standstill_seconds = 0);

}  // namespace virtrain::harness
