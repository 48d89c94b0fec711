#pragma once

#include <vector>

#include "results/store/records.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// What `isolate --security` prints: a line for each probe in each arm.
Table security_table(const std::vector<SecurityProbe>& probes);

/// "2 leaks (bare_metal: host_files; vm: leftovers), 9 not found, 1 inconclusive".
std::string security_summary(const std::vector<SecurityProbe>& probes);

}  // namespace virtrain::results
