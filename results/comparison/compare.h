#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/comparison/comparability.h"
#include "results/comparison/comparison_data.h"
#include "results/statistics/statistics.h"
#include "results/store/store.h"

namespace virtrain::results {

struct CompareRequest {
  Selection selection = {};
  std::string case_name = {};  ///< one case only; empty for all
  std::string baseline = "bare_metal";
  std::string candidate = "vm";
  Settings settings = {};
};

/// One arm of a case: what the table shows a line for.
struct ArmSummary {
  std::string arm;
  std::int64_t nodes = 1;
  std::int64_t runs = 0;                         ///< valid finished trials
  std::optional<double> images_per_second = {};  ///< mean over them, of the trial
  std::vector<TenantMean> tenants = {};
  std::optional<Scaling> scaling = {};        ///< where the case is FAMILY/NODES and FAMILY/1 was run
  std::set<std::string> virtualization = {};  ///< what was virtual; "" where nobody said
  bool oversubscribed = false;
};

/// The answer for one case.
struct CaseComparison {
  std::string case_name;
  std::string baseline;
  std::string candidate;
  Settings settings = {};
  bool paired = false;
  std::optional<std::int64_t> n = {};  ///< complete pairs
  std::optional<std::int64_t> dropped_pairs = {};
  std::optional<std::int64_t> n_baseline = {};   ///< runs, where unpaired
  std::optional<std::int64_t> n_candidate = {};  ///< likewise
  std::int64_t unpaired_left_out = 0;
  std::int64_t invalid_left_out = 0;
  std::optional<RatioTest> test = {};  ///< none where one side has no data
  std::optional<std::int64_t> further_pairs = {};
  std::optional<WelchTest> welch = {};
  std::optional<FiellerInterval> fieller = {};
  std::optional<double> ratio_of_means = {};  ///< where unpaired
  Verdict verdict = Verdict::inconclusive;
  std::string reason = {};              ///< too_few_pairs, too_few_runs, no_data, emulated, differs or empty
  bool published = false;               ///< imported rows that do not say what was virtual
  std::vector<std::string> flags = {};  ///< words for programs: zero_variance, emulated, unpaired_left_out, …
  std::vector<std::string> notes = {};  ///< sentences for people
  std::vector<FactDifference> differences = {};
  std::vector<ArmSummary> arms = {};  ///< in the order they were first run
};

/// Compares every case of the data, in plan order. Pure.
std::vector<CaseComparison> compare(const ComparisonData& data, const CompareRequest& request);
/// As above, on what the request selects. Error(not_found) where nothing is selected or the case is unknown.
std::vector<CaseComparison> compare(const Store& store, const CompareRequest& request);

/// The object that `compare --format json` prints for a case; what does not apply is null.
nlohmann::json to_json(const CaseComparison& comparison);
/// The list of them.
nlohmann::json to_json(const std::vector<CaseComparison>& comparisons);

/// One sentence: the verdict with its numbers, or why there is none.
std::string verdict_sentence(const CaseComparison& comparison);
/// What was virtual about each arm of these cases: "bare_metal: no virtual machine; vm: virtual machines on
/// KVM".
std::string virtualization_sentence(const std::vector<CaseComparison>& comparisons);

}  // namespace virtrain::results
