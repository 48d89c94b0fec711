#pragma once

#include <set>
#include <string>
#include <vector>

#include "results/comparison/compare.h"
#include "results/comparison/probe_comparison.h"
#include "results/store/store.h"

namespace virtrain::results {

/// The experiments with probes that the request selects; without a selection the latest one.
std::vector<std::string> probe_experiments_of(const Store& store, const CompareRequest& request);

/// Compares the micro-benchmarks of the request's two sides, by default each arm with bare_metal; its
/// `case_name` is the name of a probe. Throws Error(not_found) where no figure was measured on both sides.
ProbeStudy compare_probes(const Store& store, const CompareRequest& request);

/// Names of the arms of which a usable trial ran in VMs that were emulated.
std::set<std::string> emulated_arms(const std::vector<Trial>& trials);

}  // namespace virtrain::results
