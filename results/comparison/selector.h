#pragma once

#include <set>
#include <string>
#include <vector>

#include "results/store/comparison_data.h"

namespace virtrain::results {

/// Which trials make up one side of a comparison. Terms of one kind are alternatives, terms of different
/// kinds must all hold.
struct Selector {
  std::string text = {};  ///< as given
  std::string arm = {};   ///< empty: any, each compared with itself
  std::vector<std::string> labels = {};
  std::vector<std::string> experiments = {};
  std::vector<std::string> hosts = {};
  std::vector<std::string> scenarios = {};
  /// Dates or times as ISO 8601 writes them, both ends included; an empty end is open.
  struct Span {
    std::string from = {};
    std::string to = {};
  };
  std::vector<Span> dates = {};

  /// Whether it says more than an arm.
  bool beyond_arms() const;
};

/// Reads "vm", "label:before", "host:a,arm:vm", "date:2026-11-01..2026-11-10": terms separated by commas.
/// Error(usage) with the allowed terms for anything else.
Selector parse_selector(const std::string& text);

/// The same of a side that may have no name: then it selects any trial.
Selector selector_of(const std::string& side);

/// When a trial began, as far as anybody said.
const std::string& start_of(const ComparisonExperiment& experiment, const ComparisonRow& row);
/// Whether trials of this experiment that began at these times can be meant at all.
bool selects(const Selector& selector, const ComparisonExperiment& experiment,
             const std::set<std::string>& starts);
/// Whether this trial of it is.
bool selects(const Selector& selector, const ComparisonExperiment& experiment, const ComparisonRow& row);

}  // namespace virtrain::results
