#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::harness {

// Arguments that `compare` and `report` share; Error(usage) with what is allowed.

/// "2%" or "0.02": above 0 and below `below`.
double share(const std::string& flag, const std::string& text, double below);

/// "8,64,1024": the sizes that --predict asks for.
std::vector<std::int64_t> node_counts(const std::string& text);

}  // namespace virtrain::harness
