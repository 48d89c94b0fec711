#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/causes/probe_key.h"
#include "results/reading/reading.h"
#include "results/statistics/statistics.h"
#include "results/store/probe_settings.h"
#include "results/tables/render.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

/// All that tells a figure of a job from others, but for the arm.
struct JobFigureKey {
  std::string case_name;
  std::int64_t tenant_index = 0;
  std::string node;
  std::optional<std::int64_t> rank;
  std::string name;
  ProbeSettings settings;
  std::string unit;

  auto operator<=>(const JobFigureKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct JobFigureRow {
  JobFigureKey key;
  std::string tenant, arm;
  std::vector<double> values;
  double median = 0;
  std::optional<double> bare_metal = {};  ///< the same there
  bool is_emulated = false;
};

std::vector<JobFigureRow> job_figure_rows(const std::vector<TrialFigure>& figures,
                                          const std::set<std::string>& emulated) {
  std::map<JobFigureKey, std::map<std::string, JobFigureRow>> by_key;
  std::vector<JobFigureKey> order;
  for (const auto& one : figures) {
    const JobFigureKey key{one.case_name, one.tenant_index, one.node, one.rank,
                           one.name,      settings_of(one), one.unit};
    if (!by_key.contains(key)) { order.push_back(key); }
    auto& row = by_key[key][one.arm];
    row.key = key;
    row.tenant = one.tenant;
    row.arm = one.arm;
    row.values.push_back(one.value);
  }
  std::vector<JobFigureRow> rows;
  for (const auto& key : order) {
    auto& arms = by_key.at(key);
    for (auto& [arm, row] : arms) { row.median = quantile(row.values, 0.5); }
    const auto base = arms.find("bare_metal");
    for (auto& [arm, row] : arms) {
      if (base != arms.end() && arm != "bare_metal") { row.bare_metal = base->second.median; }
      row.is_emulated = emulated.contains(arm);
      rows.push_back(row);
    }
  }
  return rows;
}

std::string who_says(const JobFigureKey& key) {
  return key.rank ? fmt::format("rank {}", *key.rank) : key.node;
}

/// With a prefix where the unit takes one: "1.5 GB/s".
std::string value_words(const JobFigureRow& row) {
  const auto& unit = row.key.unit;
  return takes_prefix(unit) ? figure_with_unit(row.median, unit)
                            : fmt::format("{:.4g} {}", row.median, printable(unit));
}

std::optional<double> share_of_bare_metal(const JobFigureRow& row) {
  const bool has_ratio = row.bare_metal && *row.bare_metal > 0 && row.median >= 0 && !row.is_emulated;
  return has_ratio ? std::optional(row.median / *row.bare_metal) : std::nullopt;
}

using J = JobFigureRow;
constexpr ColumnOf<J> figure_columns[] = {
    {"case", "case", [](const J& of) { return cell(of.key.case_name); }},
    {"tenant", "tenant", [](const J& of) { return cell(of.tenant); }, false, true},
    {"of", "of", [](const J& of) { return cell(who_says(of.key)); }, false, true},
    {"name", "figure", [](const J& of) { return cell(of.key.name); }},
    {"settings", "settings", [](const J& of) { return cell(settings_words(of.key.settings)); }, false, true},
    {"arm", "arm", [](const J& of) { return cell(of.arm); }},
    {"n", "n", [](const J& of) { return cell(std::ssize(of.values)); }, true},
    {"value", "median",
     [](const J& of) {
       return Cell{of.median, value_words(of)};
     },
     true},
    {"unit", "", [](const J& of) { return silent_cell(of.key.unit); }, false, true},
    {"of_bare_metal", "of bare metal", [](const J& of) { return share_cell(share_of_bare_metal(of)); }, true,
     true}};

}  // namespace

Table figures_table(const std::vector<TrialFigure>& figures, const std::set<std::string>& emulated) {
  return table_of(figure_columns, job_figure_rows(figures, emulated));
}

Table figures_table(const Store& store, const std::string& id) {
  store.known_experiment("show", id);
  auto table = figures_table(store.trial_figures(id), emulated_arms(store.trials(id)));
  table.title = "figures of experiment " + id;
  if (table.rows.empty()) {
    table.notes.push_back(
        "its jobs have no figures next to the throughput (workload: {figures: ...} names some; "
        "docs/jobs.md)");
  }
  return table;
}

}  // namespace virtrain::results
