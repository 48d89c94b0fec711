#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/text/text.h"
#include "common/text/units.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

/// The comparisons of one family, a point each, in plan order.
using SweptFamily = std::pair<std::string, std::vector<const CaseComparison*>>;

std::vector<SweptFamily> swept_families(const ReportData& data) {
  std::vector<SweptFamily> families;
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case || comparison.key.point.empty()) { continue; }
    const bool in_images = comparison.throughput_unit == images_unit;
    const auto name = swept_name(comparison.key) + (in_images ? "" : ", " + comparison.throughput_unit);
    auto known =
        std::ranges::find_if(families, [&](const SweptFamily& family) { return family.first == name; });
    if (known == families.end()) { known = families.insert(families.end(), {name, {}}); }
    known->second.push_back(&comparison);
  }
  std::erase_if(families, [](const SweptFamily& family) { return family.second.size() < 2; });
  return families;
}

/// "16, 2" at "batch_size=16,vcpus=2"; the axis has the keys.
std::string values_of(const SweptPoint& swept) {
  std::vector<std::string> values;
  for (const auto& [key, value] : swept.values) { values.push_back(value); }
  return join(values, ", ");
}

std::string keys_of(const SweptPoint& swept) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : swept.values) { keys.push_back(key); }
  return join(keys, ", ");
}

void add_point(const SweptPoint& swept, const ArmSummary& arm, const ArmOrder& order, Chart& chart) {
  const double value = *arm.throughput;
  const auto& sweep = *arm.sweep;
  const auto limits = sweep.ci.value_or(Interval{value, value});
  const auto key = arm_key(order, arm.arm);
  add_key(chart, key);
  const bool good = sweep.standing == Standing::best || sweep.standing == Standing::as_good;
  chart.data["points"].push_back(
      {{"at", values_of(swept)},
       {"style", key.mark},
       {"value", rounded(value)},
       {"low", rounded(limits.low)},
       {"high", rounded(limits.high)},
       {"good", good},
       {"tip", fmt::format("{}\n{}: {} {}\n{}", to_text(swept), key.words, figure_words(value), arm.unit,
                           spaced(to_string(sweep.standing)))}});
  const auto limit = [&](double Interval::*side) {
    return cell(sweep.ci ? std::optional(*sweep.ci.*side) : std::nullopt, 2);
  };
  chart.table.rows.push_back({cell(to_text(swept)), cell(key.words), cell(std::optional(value), 2),
                              limit(&Interval::low), limit(&Interval::high),
                              cell(spaced(to_string(sweep.standing)))});
}

Chart chart_of(const SweptFamily& family, const ArmOrder& order, std::size_t number) {
  const auto& unit = family.second.front()->throughput_unit;
  Chart chart;
  chart.id = fmt::format("sweep-{}", number);
  chart.spec = "sweep";
  chart.title = family.first + ": throughput over its sweep";
  chart.data["points"] = nlohmann::json::array();
  chart.table.columns = {{"at", "Point"},         {"arm", "Arm"},
                         throughput_column(unit), {"low", "95 % from", true},
                         {"high", "to", true},    {"standing", "Standing"}};
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  std::vector<CaseComparison> comparisons;
  for (const auto* comparison : family.second) {
    comparisons.push_back(in_words(*comparison));
    const auto& swept = comparison->key.point;
    chart.signals["keys"] = keys_of(swept);
    for (const auto& arm : comparison->arms) {
      if (!arm.sweep || !arm.throughput) { continue; }
      add_point(swept, arm, order, chart);
      const auto limits = arm.sweep->ci.value_or(Interval{*arm.throughput, *arm.throughput});
      low = std::min(low, limits.low);
      high = std::max(high, limits.high);
    }
  }
  set_value_axis(chart, low, high, unit);
  chart.summary = join(sweep_sentences(comparisons), " ") + " Filled points are the best and those as good.";
  return chart;
}

}  // namespace

std::vector<Chart> sweep_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<Chart> charts;
  for (const auto& family : swept_families(data)) {
    auto chart = chart_of(family, order, charts.size() + 1);
    if (!chart.table.rows.empty()) { charts.push_back(std::move(chart)); }
  }
  return charts;
}

}  // namespace virtrain::results
