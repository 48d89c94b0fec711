#pragma once

#include <vector>

#include "results/store/records.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// A line for each search in each arm.
Table security_table(const std::vector<LeakSearch>& searches);
/// The table of `isolate --security`: the same in 80 columns, with the findings below. Programs get all of
/// it.
Table narrow_security_table(const std::vector<LeakSearch>& searches);

/// "2 leaks (bare_metal: host_files; vm: leftovers), 9 not found, 1 inconclusive".
std::string security_summary(const std::vector<LeakSearch>& searches);

}  // namespace virtrain::results
