#pragma once

#include <string>
#include <vector>

#include "results/comparison/isolation_matrix.h"
#include "results/comparison/mitigation.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// The table of `isolate`: a line for each condition of each victim and arm.
Table isolation_table(const std::vector<IsolationMatrix>& matrices);

/// How much each mitigation helps, and what it costs: a line for each mitigation and neighbour.
Table mitigation_table(const std::vector<Mitigation>& mitigations);
/// The matrix, and for people below it what helps how much; programs get one list at a time.
std::string render(const IsolationStudy& study, Format format, const Screen& screen = {});

}  // namespace virtrain::results
