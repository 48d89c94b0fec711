#pragma once

#include <vector>

#include "results/comparison/isolation_matrix.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// What `isolate` prints: a line for each condition of each victim and arm.
Table isolation_table(const std::vector<IsolationMatrix>& matrices);

}  // namespace virtrain::results
