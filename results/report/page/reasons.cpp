#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/report/page/page.h"
#include "results/tables/isolation_table.h"
#include "results/tables/security_table.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// A bound wider than this says nothing that a reader could plan with.
constexpr double widest_bound = 2;  // high / low

/// The rows that a page has room for; `option`: of virtrain show, which prints all of them.
Table shortened(Table table, const char* option) {
  constexpr std::size_t most_rows = 200;
  if (table.rows.size() <= most_rows) { return table; }
  table.notes.push_back(
      fmt::format("{} of {} rows; virtrain show {} has them all", most_rows, table.rows.size(), option));
  table.rows.resize(most_rows);
  return table;
}

/// Why a weak scaling has no table of predictions; empty where it has one.
std::string why_no_prediction(const Prediction& prediction) {
  if (prediction.too_many_sizes > 0) {
    return fmt::format("{} sizes were measured; at most {} are fitted", prediction.too_many_sizes,
                       most_predicted_sizes);
  }
  if (prediction.outside_model) { return "what was measured is not what the model of a ring says"; }
  if (prediction.fitted_on == "nothing" || prediction.fitted_on == "probes") {
    return "no size beyond one node was measured";
  }
  if (prediction.fitted_on == "one_run") { return "two sizes beyond one node are needed, one was measured"; }
  // One run says nothing of how far the next would be from it, and a fit carries that error to larger sizes.
  if (!prediction.single_runs.empty()) {
    return fmt::format("every measured size needs at least two valid trials; there is only one at {} {}",
                       fmt::join(prediction.single_runs, ", "),
                       prediction.single_runs == std::vector<std::int64_t>{1} ? "node" : "nodes");
  }
  return "";
}

bool says_something(const PredictedPoint& point) {
  return point.measured || (point.bound && point.bound->high <= widest_bound * point.bound->low);
}

Table table_of(const Prediction& prediction, const std::string& unit) {
  Table table;
  table.columns = {{"nodes", "Nodes", true},
                   {"measured", "Measured, " + unit, true},
                   {"predicted", "By the model", true},
                   {"low", "from", true},
                   {"high", "to", true},
                   {"ideal", "Ideal", true},
                   {"held_out_error", "Error when held out", true}};
  std::vector<std::string> too_far;
  for (const auto& point : prediction.points) {
    if (!says_something(point)) {
      too_far.push_back(std::to_string(point.nodes));
      continue;
    }
    const auto limit = [&](double Interval::*side) {
      return cell(point.bound ? figure_words(*point.bound.*side) : "");
    };
    table.rows.push_back({cell(point.nodes), cell(point.measured ? figure_words(*point.measured) : ""),
                          cell(figure_words(point.predicted)), limit(&Interval::low), limit(&Interval::high),
                          cell(figure_words(point.ideal)), share_cell(point.held_out_error)});
  }
  table.notes = prediction.notes;
  if (!too_far.empty()) {
    table.notes.push_back(fmt::format(
        "not shown: {} nodes, whose bound is wider than a factor of {:g} (virtrain compare --predict has it)",
        join(too_far, " and "), widest_bound));
  }
  return table;
}

}  // namespace

json reasons_model(const ReportData& data) {
  std::vector<CaseComparison> in_arm_words;
  for (const auto& comparison : data.comparisons) { in_arm_words.push_back(in_words(comparison)); }
  const auto explained = explanations_of(in_arm_words);
  if (explained.tables.empty()) { return false; }
  json tables = json::array(), rest = json::array();
  for (const auto& table : explained.tables) {
    tables.push_back(table_model(without_empty_columns(table), table.title));
  }
  for (const auto& sentence : explained.rest) { rest.push_back({{"sentence", sentence}}); }
  return {{"tables", tables}, {"rest", rest}};
}

json mitigations_model(const ReportData& data) {
  if (data.isolation.mitigations.empty()) { return json::array(); }
  const auto table = without_empty_columns(mitigation_table(data.isolation.mitigations));
  return json::array({table_model(table, table.title)});
}

json costs_model(const ReportData& data) {
  const auto table = without_empty_columns(costs_table(data.comparisons));
  if (table.rows.empty()) { return json::array(); }
  return json::array({table_model(table, "What images cost in energy and money")});
}

json security_model(const ReportData& data) {
  if (data.security.empty()) { return json::array(); }
  const auto table = without_empty_columns(security_table(data.security));
  return json::array({table_model(table, security_summary(data.security))});
}

json probes_model(const ReportData& data) {
  if (data.probes.empty()) { return json::array(); }
  const auto table = shortened(without_empty_columns(probes_table(data.probes, data.emulated)), "--probes");
  auto tables = json::array();
  if (!data.probe_study.figures.empty()) {
    const auto compared = without_empty_columns(probe_study_table(data.probe_study));
    tables.push_back(table_model(compared, compared.title));
  }
  tables.push_back(table_model(table, "Probes: medians of each arm"));
  return tables;
}

json job_figures_model(const ReportData& data) {
  if (data.figures.empty()) { return json::array(); }
  const auto table =
      shortened(without_empty_columns(figures_table(data.figures, data.emulated)), "--figures");
  return json::array({table_model(table, "Figures of jobs next to their throughput: medians of each arm")});
}

json hosts_model(const ReportData& data) {
  if (data.hosts.empty()) { return json::array(); }
  const auto table = without_empty_columns(hosts_table(data.hosts));
  return json::array(
      {table_model(table, "How fast a rank computes on each host while it waits for no other")});
}

json predictions_model(const ReportData& data, json& absent) {
  json tables = json::array();
  std::set<std::string> seen;
  for (const auto& comparison : data.comparisons) {
    for (const auto& arm : comparison.arms) {
      if (!arm.prediction || !arm.scaling) { continue; }
      // Every size of a weak scaling carries the same prediction.
      const std::string family = printed(resized(comparison.key, {}));
      const std::string caption = fmt::format("{}, {}{}", family, arm_words(arm.arm), in_unit(arm.unit));
      if (!seen.insert(caption).second) { continue; }
      if (const auto why = why_no_prediction(*arm.prediction); !why.empty()) {
        absent.push_back({{"words", fmt::format("predictions of {}: {}", caption, why)}});
        continue;
      }
      tables.push_back(table_model(table_of(*arm.prediction, arm.unit), caption));
    }
  }
  return tables;
}

}  // namespace virtrain::results
