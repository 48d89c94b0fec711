#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/comparison/guard/comparability.h"

namespace virtrain::results {

/// Evidence on one side of a case, as means over its nodes and ranks. The names of the numbers are those of
/// docs/method.md: steal_share, exposed_allreduce_seconds, step_seconds, probe.triad, …
struct Evidence {
  std::map<std::string, double> numbers = {};
  Facts facts = {};
  std::string name = {};  ///< of the side: "vm"
};

/// One difference between the sides that may have cost throughput.
struct Finding {
  std::string cause = {};     ///< word for programs: steal, clocks, network_bandwidth, …
  std::string name = {};      ///< "steal"
  std::string meaning = {};   ///< "other work took the node's cores"
  std::string baseline = {};  ///< its number or fact on each side
  std::string candidate = {};
  std::string evidence = {};  ///< both of them, in words
  std::string model = {};     ///< how the estimate follows from them
  /// Share of the baseline's throughput that it costs by the model (negative: it gains); none where the model
  /// has no number for it.
  std::optional<double> cost = {};
  std::optional<double> share_of_gap = {};  ///< of the logarithm of the ratio
  std::string next = {};                    ///< what to try
  bool at_most = false;  ///< an upper bound (no more than what the others leave), not counted as explained
};

/// Why the candidate is not as fast as the baseline (or faster), as far as the evidence goes.
struct Explanation {
  double ratio = 1;
  double gap = 0;                          ///< 1 - ratio: share of the baseline's throughput that is missing
  std::vector<Finding> findings = {};      ///< largest cost first, those without a number last
  std::optional<double> unexplained = {};  ///< share of the gap; negative: over-explained; none without a gap
};

/// Ranks the causes by first-order models (docs/method.md). Pure.
Explanation explain(double ratio, const Evidence& baseline, const Evidence& candidate);

nlohmann::json to_json(const Explanation& explanation);

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
