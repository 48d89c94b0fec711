#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/comparison/compare.h"
#include "results/comparison/mitigation.h"
#include "results/store/store.h"

// Comparisons of what a database has.
namespace virtrain::results {

/// Ids of the experiments that a side can mean, oldest first; without selectors those of the selection.
/// Error(not_found) with words if there are none.
std::vector<std::string> experiments_of(const Store& store, const CompareRequest& request);
/// The comparison of what the request selects. Error(not_found) where nothing is selected or the case is
/// unknown.
std::vector<CaseComparison> compare(const Store& store, const CompareRequest& request);
/// Victims beside neighbours in these experiments; `margin` and `alpha` as in isolation_matrices().
IsolationStudy isolation_study(const Store& store, const std::vector<std::string>& experiments,
                               std::optional<double> margin = {}, double alpha = 0.05);

}  // namespace virtrain::results
