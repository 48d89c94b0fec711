#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "results/comparison/causes/explain.h"

namespace virtrain::results {

/// Effect of one cause by its model.
struct Estimate {
  std::string baseline = {};  ///< its number or fact on each side
  std::string candidate = {};
  std::string of = {};                ///< what they are of, behind both: " of the CPU time"
  std::optional<double> factor = {};  ///< candidate's throughput / baseline's by this cause alone
  bool at_most = false;               ///< the factor is a bound: how much the job depends on it is not known
};

/// One row of the table of causes.
struct CauseRow {
  std::string_view cause, name, meaning, model;
  std::string_view next;  ///< what tells how much it really costs, or cures it
  /// Absent where there is no evidence.
  std::optional<Estimate> (*estimate)(const Evidence& baseline, const Evidence& candidate);
};

/// The explainer's table. A tie between upper bounds goes to the row that comes first.
std::span<const CauseRow> cause_rows();

}  // namespace virtrain::results
