#pragma once

#include <vector>

#include "results/comparison/isolation_matrix.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// The table of `isolate`: a line for each condition of each victim and arm.
Table isolation_table(const std::vector<IsolationMatrix>& matrices);

}  // namespace virtrain::results
