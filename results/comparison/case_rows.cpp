#include "results/comparison/case_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "common/model/virtualization.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

/// Position of a trial in its plan; imported trials without one stand behind, in file order.
auto plan_position(const ComparisonRow& row) {
  return std::tuple(row.experiment, row.order.value_or(std::numeric_limits<std::int64_t>::max()));
}

const std::string& boot_of(const ComparisonData& data, const ComparisonRow& row) {
  return row.boot_id.empty() ? experiment_of(data, row).boot_id : row.boot_id;
}

/// Geometric means of the trials of each boot, in the order the boots were first seen.
std::vector<double> session_means(const Booted& runs) {
  std::vector<std::vector<double>> logs;
  std::map<std::string, std::size_t> session_of_boot;
  for (std::size_t i = 0; i < runs.throughputs.size(); ++i) {
    const auto& boot = runs.boots[i];
    std::size_t session = logs.size();
    if (!boot.empty()) { session = session_of_boot.try_emplace(boot, session).first->second; }
    if (session == logs.size()) { logs.emplace_back(); }
    logs[session].push_back(std::log(runs.throughputs[i]));
  }
  std::vector<double> means;
  means.reserve(logs.size());
  for (const auto& session : logs) { means.push_back(std::exp(mean(session))); }
  return means;
}

}  // namespace

bool is_emulation(const std::string& virtualization) {
  const auto known = enum_of<Virtualization>(virtualization);
  return known && is_emulated(*known);
}

bool usable(const ComparisonRow& row) {
  return row.status == Status::finished && row.valid && row.throughput;
}

const ComparisonExperiment& experiment_of(const ComparisonData& data, const ComparisonRow& row) {
  static const ComparisonExperiment unknown;
  const auto index = static_cast<std::size_t>(row.experiment);
  return index < data.experiments.size() ? data.experiments[index] : unknown;
}

std::vector<CaseRows> by_case(const ComparisonData& data) {
  Rows ordered;
  for (const auto& row : data.rows) { ordered.push_back(&row); }
  std::ranges::stable_sort(ordered, [](const ComparisonRow* a, const ComparisonRow* b) {
    return plan_position(*a) < plan_position(*b);
  });
  std::map<std::string, std::string> first_unit;
  for (const auto* row : ordered) {
    if (row->throughput) { first_unit.try_emplace(row->case_name, row->unit); }
  }
  std::vector<CaseRows> cases;
  std::map<std::pair<std::string, std::string>, std::size_t> index;
  for (const auto* row : ordered) {
    const auto known = first_unit.find(row->case_name);
    const auto unit = row->throughput || known == first_unit.end() ? row->unit : known->second;
    const auto [found, fresh] = index.try_emplace({row->case_name, unit}, cases.size());
    if (fresh) { cases.push_back({row->case_name, {}, row->case_key, unit}); }
    cases[found->second].rows.push_back(row);
  }
  return cases;
}

Rows rows_of(const ComparisonData& data, const Rows& rows, const Selector& selector) {
  Rows chosen;
  for (const auto* row : rows) {
    if (selects(selector, experiment_of(data, *row), *row)) { chosen.push_back(row); }
  }
  return chosen;
}

Rows runs_of(const Rows& rows, bool pooled) {
  Rows runs;
  bool has_pairs = false;
  for (const auto* row : rows) {
    if (!usable(*row)) { continue; }
    runs.push_back(row);
    has_pairs = has_pairs || row->pair;
  }
  if (has_pairs && !pooled) {
    std::erase_if(runs, [](const ComparisonRow* row) { return !row->pair; });
  }
  return runs;
}

Rows of_shared_experiments(const Rows& runs, const Rows& others) {
  std::set<std::int64_t> experiments;
  for (const auto* row : others) { experiments.insert(row->experiment); }
  Rows kept;
  std::ranges::copy_if(runs, std::back_inserter(kept),
                       [&](const auto* row) { return experiments.contains(row->experiment); });
  return kept.empty() ? runs : kept;
}

RowPairs pairs_of(const Rows& baseline, const Rows& candidate) {
  RowPairs pairs;
  const auto add = [&](const Rows& rows, const ComparisonRow* RowPair::*side) {
    for (const auto* row : rows) {
      if (!row->pair) { continue; }
      auto& pair = pairs[{row->experiment, *row->pair}];
      if (usable(*row)) { pair.*side = row; }
    }
  };
  add(baseline, &RowPair::baseline);
  add(candidate, &RowPair::candidate);
  return pairs;
}

std::vector<double> throughputs(const Rows& rows) {
  std::vector<double> values;
  for (const auto* row : rows) { values.push_back(*row->throughput); }
  return values;
}

const std::string& victim_arm(const ComparisonRow& row) {
  return row.arm_key.is_beside() ? row.arm_key.like : row.arm;
}

std::vector<std::string> boots_of(const ComparisonData& data, const Rows& rows) {
  std::vector<std::string> boots;
  for (const auto* row : rows) { boots.push_back(boot_of(data, *row)); }
  return boots;
}

Units units_of(const ComparisonData& data, const Rows& baseline, const Rows& candidate) {
  return units_of({throughputs(baseline), boots_of(data, baseline)},
                  {throughputs(candidate), boots_of(data, candidate)});
}

Units units_of(const Booted& baseline, const Booted& candidate) {
  std::set<std::string> boots(baseline.boots.begin(), baseline.boots.end());
  boots.insert(candidate.boots.begin(), candidate.boots.end());
  // One boot, or none known at all.
  if (boots.size() <= 1) { return {baseline.throughputs, candidate.throughputs, false}; }
  return {session_means(baseline), session_means(candidate), true};
}

}  // namespace virtrain::results
