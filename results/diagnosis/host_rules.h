#pragma once

#include <string>
#include <vector>

#include "results/diagnosis/causes.h"

namespace virtrain::results {

/// Failed checks of the host that make work slow or stop it, and what they explain. Those that are about
/// lending devices are doctor's alone.
std::vector<CauseFinding> host_findings(const DiagnosedHost& host);
/// Names what checks could not tell here, and what would tell it.
std::vector<std::string> host_unknowns(const DiagnosedHost& host);

}  // namespace virtrain::results
