#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "common/contains.h"
#include "common/text/units.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

struct ArmRow {
  std::string case_name;
  std::string arm;
  KeyEntry key;
  double mean = 0;
  std::vector<double> runs;
};

/// Every arm of every case that has a throughput in this unit, in plan order.
std::vector<ArmRow> arm_rows(const ReportData& data, const ArmOrder& order, const std::string& unit) {
  std::vector<ArmRow> rows;
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& comparison : data.comparisons) {
    for (const auto& arm : comparison.arms) {
      if (arm.throughput.value_or(0) <= 0 || arm.unit != unit) { continue; }
      if (!seen.emplace(comparison.case_name, arm.arm).second) { continue; }
      rows.push_back({comparison.case_name, arm_words(arm.arm), arm_key(order, arm.arm), *arm.throughput,
                      arm.throughputs});
    }
  }
  return rows;
}

/// The slowest and the fastest run.
std::pair<double, double> slowest_and_fastest(const std::vector<ArmRow>& rows) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const auto& row : rows) {
    low = std::min(low, row.mean);
    high = std::max(high, row.mean);
    for (const double run : row.runs) {
      if (run > 0) { low = std::min(low, run); }
      high = std::max(high, run);
    }
  }
  return {low, high};
}

void add_arm_row(const ArmRow& row, const std::string& unit, std::size_t position, bool first_of_case,
                 Chart& chart) {
  const auto count = row.runs.size();
  chart.data["rows"].push_back(
      {{"case", first_of_case ? row.case_name : ""},
       {"arm", row.arm},
       {"style", row.key.mark},
       {"position", position},
       {"first", first_of_case},
       {"value", rounded(row.mean)},
       {"words", figure_words(row.mean)},
       {"tip", fmt::format("{}\n{}: {} {}\n{} {}", row.case_name, row.arm, figure_words(row.mean), unit,
                           count, count == 1 ? "trial" : "trials, mean")}});
  for (const double run : row.runs) {
    if (run > 0) {
      chart.data["runs"].push_back(
          {{"style", row.key.mark}, {"position", position}, {"value", rounded(run)}});
    }
  }
  const auto [least, most] = std::minmax_element(row.runs.begin(), row.runs.end());
  const auto limit = [&](auto found) {
    return cell(found == row.runs.end() ? std::nullopt : std::optional(*found), 2);
  };
  chart.table.rows.push_back({cell(row.case_name), cell(row.arm), cell(std::optional(row.mean), 2),
                              cell(static_cast<std::int64_t>(count)), limit(least), limit(most)});
}

Chart chart_of(const std::vector<ArmRow>& rows, const std::string& unit, std::size_t number) {
  const bool in_images = unit == images_unit;
  Chart chart;
  chart.id = in_images ? "throughput" : fmt::format("throughput-{}", number);
  chart.spec = "throughput";
  chart.title = in_images ? "Images per second of each case and arm" : unit + " of each case and arm";
  chart.data = {{"rows", nlohmann::json::array()}, {"runs", nlohmann::json::array()}};
  chart.table.columns = {{"case", "Case"},
                         {"arm", "Arm"},
                         throughput_column(unit),
                         {"trials", "Trials", true},
                         {"slowest", "Slowest", true},
                         {"fastest", "Fastest", true}};
  chart.table.columns[2].head += ", mean";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add_arm_row(rows[i], unit, i, i == 0 || rows[i].case_name != rows[i - 1].case_name, chart);
    add_key(chart, rows[i].key);
  }
  const auto by_mean = [](const ArmRow& a, const ArmRow& b) { return a.mean < b.mean; };
  const auto [slowest, fastest] = std::minmax_element(rows.begin(), rows.end(), by_mean);
  chart.summary = fmt::format(
      "From {} {} ({}, {}) to {} ({}, {}): large marks are means of the valid trials, small ones the "
      "trials.",
      figure_words(slowest->mean), unit, slowest->case_name, slowest->arm, figure_words(fastest->mean),
      fastest->case_name, fastest->arm);
  const auto [low, high] = slowest_and_fastest(rows);
  const bool logarithmic = needs_logarithm(low, high);
  if (logarithmic) { chart.scales["x"] = "log"; }
  chart.signals = {
      {"count", rows.size()},
      {"domain", logarithmic ? nlohmann::json{low / 1.2, high * 1.2} : nlohmann::json{0, high * 1.04}},
      {"axis_title", unit + (logarithmic ? ", logarithmic axis" : "")}};
  return chart;
}

}  // namespace

std::vector<Chart> throughput_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<std::string> units;
  for (const auto& comparison : data.comparisons) { add_once(units, comparison.throughput_unit); }
  std::vector<Chart> charts;
  for (const auto& unit : units) {
    const auto rows = arm_rows(data, order, unit);
    if (!rows.empty()) { charts.push_back(chart_of(rows, unit, charts.size() + 1)); }
  }
  return charts;
}

}  // namespace virtrain::results
