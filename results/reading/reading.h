#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/changes/changes.h"
#include "results/comparison/compare.h"
#include "results/comparison/mitigation.h"
#include "results/comparison/probe_comparison.h"
#include "results/store/store.h"

// Reads from a database what is compared, and compares it.

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

/// The experiments with probes that the request selects; without a selection the latest one.
std::vector<std::string> probe_experiments_of(const Store& store, const CompareRequest& request);

/// Compares the micro-benchmarks of the request's two sides, by default each arm with bare_metal; its
/// `case_name` is the name of a probe. Throws Error(not_found) where no figure was measured on both sides.
ProbeStudy compare_probes(const Store& store, const CompareRequest& request);

/// Names of the arms of which a usable trial ran in VMs that were emulated.
std::set<std::string> emulated_arms(const std::vector<Trial>& trials);

/// The series whose name contains the text (empty: all), their changes, and the suspects of confirmed ones.
ChangeLog read_changes(const Store& store, const std::string& series_text = "", const ChangeRule& rule = {});
/// The same of the series of one scenario.
ChangeLog read_changes_of(const Store& store, const std::string& scenario);

/// Takes a confirmed change for the new normal. Error(not_found) without such a change, Error(usage) for one
/// that nobody can acknowledge yet, or for an empty reason.
void acknowledge(Store& store, const std::string& change, const std::string& why, const std::string& now);

}  // namespace virtrain::results
