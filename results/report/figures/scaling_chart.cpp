#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/text/units.h"
#include "results/comparison/case_rows.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

struct Step {
  std::string who;    ///< an arm, or "published, " and an arm
  std::string style;  ///< class of the key entry
  std::int64_t nodes = 1;
  std::optional<double> throughput = {};
  std::string unit = images_unit;
  Scaling scaling = {};
  std::string published_by = {};  ///< the experiment that the published figures are of
};

/// A family of cases by its name, in one unit.
using Family = std::pair<std::string, std::string>;

/// Own and published steps of each family, in plan order.
std::map<Family, std::vector<Step>> steps_of(const ReportData& data, const ArmOrder& order) {
  std::map<Family, std::vector<Step>> families;
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    for (const auto& arm : comparison.arms) {
      if (!arm.scaling) { continue; }
      auto& steps = families[{printed(resized(comparison.key, {})), arm.unit}];
      steps.push_back({arm_words(arm.arm), arm_key(order, arm.arm).mark, arm.nodes, arm.throughput, arm.unit,
                       *arm.scaling});
      if (!arm.published) { continue; }
      steps.push_back({"published, " + arm_words(arm.arm),
                       "published",
                       arm.nodes,
                       {},
                       arm.unit,
                       {.speedup = arm.published->speedup, .efficiency = arm.published->efficiency},
                       arm.published->experiment});
    }
  }
  return families;
}

nlohmann::json row_of(const Step& step) {
  const auto& scaling = step.scaling;
  std::string tip = step.who + ", " + counted(step.nodes, "node");
  if (step.throughput) { tip += fmt::format("\n{:.1f} {}", *step.throughput, step.unit); }
  tip += fmt::format("\nspeedup {:.3f}\nefficiency {:.1f} %", scaling.speedup, 100 * scaling.efficiency);
  nlohmann::json row{{"who", step.who},
                     {"style", step.style},
                     {"nodes", step.nodes},
                     {"speedup", scaling.speedup},
                     {"efficiency", 100 * scaling.efficiency},
                     {"interval", scaling.speedup_ci.has_value()}};
  if (scaling.speedup_ci) {
    row["speedup_low"] = scaling.speedup_ci->low;
    row["speedup_high"] = scaling.speedup_ci->high;
    row["efficiency_low"] = 100 * scaling.efficiency_ci->low;
    row["efficiency_high"] = 100 * scaling.efficiency_ci->high;
    tip += fmt::format("\n95 %: {:.3f} to {:.3f}", scaling.speedup_ci->low, scaling.speedup_ci->high);
  }
  row["tip"] = tip;
  return row;
}

Table table_of(const std::vector<Step>& steps) {
  const auto& unit = steps.front().unit;
  Table table;
  table.columns = {{"who", "Arm"},
                   {"nodes", "Nodes", true},
                   throughput_column(unit),
                   {"speedup", "Speedup", true},
                   {"speedup_low", "95 % from", true},
                   {"speedup_high", "to", true},
                   {"efficiency", "Efficiency", true}};
  for (const auto& step : steps) {
    const auto& ci = step.scaling.speedup_ci;
    table.rows.push_back(
        {cell(step.who), cell(step.nodes), cell(step.throughput, 1),
         cell(std::optional(step.scaling.speedup), 3), cell(ci ? std::optional(ci->low) : std::nullopt, 3),
         cell(ci ? std::optional(ci->high) : std::nullopt, 3), share_cell(step.scaling.efficiency)});
  }
  return table;
}

/// "On 4 nodes bare metal reaches 3.90 times one node's throughput (97.4 %), VM 3.85 times (96.2 %)."
std::string summary_of(const std::vector<Step>& steps) {
  std::int64_t most = 1;
  for (const auto& step : steps) { most = std::max(most, step.nodes); }
  std::string words = "On " + counted(most, "node");
  bool first = true;
  for (const auto& step : steps) {
    if (step.nodes != most) { continue; }
    words += fmt::format("{} {} reaches {:.3f} times its own single node ({:.1f} % of the ideal)",
                         first ? "" : ",", step.who, step.scaling.speedup, 100 * step.scaling.efficiency);
    first = false;
  }
  std::set<std::string> sources;
  for (const auto& step : steps) {
    if (!step.published_by.empty()) { sources.insert(step.published_by); }
  }
  return words + (sources.empty() ? "." : fmt::format(". Published: {}.", fmt::join(sources, ", ")));
}

/// The numbers of nodes, which are the ideal speedups, and below 1 the halves down to the slowest.
std::vector<double> speedup_ticks(double slowest, const std::set<std::int64_t>& nodes) {
  std::vector<double> ticks(nodes.begin(), nodes.end());
  double tick = 0.5;
  while (tick > slowest / 2) {
    ticks.push_back(tick);
    tick /= 2;
  }
  return ticks;
}

Chart chart_of(const Family& family, const std::vector<Step>& steps, std::size_t number) {
  Chart chart;
  chart.id = fmt::format("scaling-{}", number);
  chart.spec = "scaling";
  const auto& [name, unit] = family;
  chart.title = name + (unit == images_unit ? "" : ", " + unit) + ": efficiency and speedup";
  chart.summary = summary_of(steps);
  chart.data["steps"] = nlohmann::json::array();
  std::set<std::int64_t> nodes;
  std::set<std::string> named;
  double slowest = 1;
  double fastest = 1;
  double lowest = 90;
  double highest = 100;
  for (const auto& step : steps) {
    chart.data["steps"].push_back(row_of(step));
    nodes.insert(step.nodes);
    slowest = std::min(slowest, step.scaling.speedup);
    fastest = std::max({fastest, step.scaling.speedup, static_cast<double>(step.nodes)});
    const auto ci =
        step.scaling.efficiency_ci.value_or(Interval{step.scaling.efficiency, step.scaling.efficiency});
    lowest = std::min(lowest, 100 * ci.low);
    highest = std::max(highest, 100 * ci.high);
    if (named.insert(step.who).second) { chart.key.push_back({step.style, step.who}); }
  }
  chart.key.push_back({"ideal", "ideal: N nodes, N times the throughput"});
  chart.signals = {{"nodes", nodes},
                   {"speedup_domain", {slowest * 0.9, fastest * 1.1}},
                   {"speedup_ticks", speedup_ticks(slowest, nodes)},
                   {"efficiency_domain", {std::floor(lowest / 5) * 5, highest + 2}}};
  chart.table = table_of(steps);
  return chart;
}

}  // namespace

std::vector<Chart> scaling_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<Chart> charts;
  for (const auto& [family, steps] : steps_of(data, order)) {
    const bool scales = std::ranges::any_of(steps, [](const Step& step) { return step.nodes > 1; });
    if (scales) { charts.push_back(chart_of(family, steps, charts.size() + 1)); }
  }
  return charts;
}

}  // namespace virtrain::results
