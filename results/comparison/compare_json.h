#pragma once

#include <nlohmann/json.hpp>

#include <vector>

#include "results/comparison/compare.h"

namespace virtrain::results {

/// The object that `compare --format json` prints for a case; what does not apply is null.
nlohmann::json to_json(const CaseComparison& comparison);
/// The list of them.
nlohmann::json to_json(const std::vector<CaseComparison>& comparisons);

}  // namespace virtrain::results
