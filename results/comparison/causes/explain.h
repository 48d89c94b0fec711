#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
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

}  // namespace virtrain::results
