#pragma once

#include <vector>

#include "results/comparison/mitigation.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// What helps how much, and what it costs: a line for each mitigation and neighbour.
Table mitigation_table(const std::vector<Mitigation>& mitigations);

}  // namespace virtrain::results
