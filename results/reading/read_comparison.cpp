#include "results/reading/read_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/error.h"
#include "results/comparison/guard/comparability.h"
#include "results/comparison/selector.h"
#include "results/comparison/sweep.h"

namespace virtrain::results {

std::vector<std::string> experiments_of(const Store& store, const CompareRequest& request) {
  const auto baseline = selector_of(request.baseline);
  const auto candidate = selector_of(request.candidate);
  Selection selection = request.selection;
  if (!baseline.beyond_arms() && !candidate.beyond_arms()) { return store.select(selection); }
  selection.all = true;
  const auto selected = store.select(selection);
  const auto all = store.comparison_experiments(selected);
  std::vector<std::string> chosen;
  std::map<const Selector*, bool> found;
  const bool by_date = !baseline.dates.empty() || !candidate.dates.empty();
  for (const auto& experiment : all) {
    const auto starts = by_date ? store.comparison_starts(experiment.id) : std::set<std::string>();
    bool meant = false;
    for (const auto* side : {&baseline, &candidate}) {
      if (!selects(*side, experiment, starts)) { continue; }
      found[side] = meant = true;
    }
    if (meant) { chosen.push_back(experiment.id); }
  }
  for (const auto* side : {&baseline, &candidate}) {
    if (found[side]) { continue; }
    throw Error(
        "compare", ErrorCode::not_found,
        fmt::format("no experiment with trials is {} (virtrain list shows what there is)", side->text));
  }
  return chosen;
}

std::vector<CaseComparison> compare(const Store& store, const CompareRequest& request) {
  const auto experiments = experiments_of(store, request);
  auto data = store.comparison_data(experiments, fields_with_rules());
  const bool needs_power =
      std::ranges::any_of(data.rows, [](const auto& row) { return sweeps_power(row.case_key); });
  if (request.explain || needs_power) { data.numbers = store.comparison_numbers(experiments); }
  if (request.explain || !request.predict.empty()) { data.probes = store.comparison_probes(experiments); }
  auto result = compare(data, request);
  if (result.empty()) {
    throw Error(
        "compare", ErrorCode::not_found,
        request.case_name.empty()
            ? fmt::format("no trial is {} or {}", request.baseline, request.candidate)
            : fmt::format("experiment {} has no case {}", fmt::join(experiments, ", "), request.case_name));
  }
  return result;
}

IsolationStudy isolation_study(const Store& store, const std::vector<std::string>& experiments,
                               std::optional<double> margin, double alpha) {
  auto data = store.comparison_data(experiments, fields_with_rules());
  data.neighbours = store.comparison_neighbours(experiments);
  data.neighbour_rates = store.comparison_neighbour_rates(experiments);
  data.later_steps = store.comparison_later_steps(experiments);
  return isolation_study(data, margin, alpha);
}

}  // namespace virtrain::results
