#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "results/report/figures/figures.h"
#include "results/tables/isolation_table.h"

namespace virtrain::results {
namespace {

// Losses that end a class of the map; the classes have colours of their own in light and dark.
constexpr double loss_class_ends[] = {0.02, 0.05, 0.1, 0.25, 0.5};
constexpr const char* loss_class_words[] = {"below 2 %", "to 5 %",  "to 10 %",
                                            "to 25 %",   "to 50 %", "50 % and more"};

/// "cpu"; the idle neighbour has a row of its own.
std::string heat_row(const NeighbourCell& cell) {
  return cell.aggressor.empty() ? cell.neighbour : cell.aggressor;
}

/// Idle is a load of nothing.
double heat_level(const NeighbourCell& cell) {
  return cell.level.value_or(cell.aggressor.empty() ? 0 : 1);
}

bool is_decided(const Disturbance& disturbance) {
  return disturbance.verdict != Isolated::inconclusive && disturbance.verdict != Isolated::not_comparable;
}

nlohmann::json heat_cell(const NeighbourCell& cell, std::size_t row, std::size_t column) {
  const auto& alone = *cell.against_alone;
  const auto heat = std::upper_bound(std::begin(loss_class_ends), std::end(loss_class_ends), alone.loss) -
                    std::begin(loss_class_ends);
  return {{"row", row},
          {"column", column},
          {"fill", fmt::format("var(--heat-{})", heat)},
          {"ink", fmt::format("var(--heat-ink-{})", heat)},
          {"words", fmt::format("{:.0f} %{}", alone.loss * 100, is_decided(alone) ? "" : " ?")},
          {"tip", fmt::format("beside {}\n{}", cell.neighbour, to_text(alone, true))}};
}

Chart neighbour_chart(const IsolationMatrix& matrix, std::size_t index) {
  Chart chart;
  chart.id = fmt::format("neighbours-{}", index);
  chart.spec = "isolation";
  chart.title = fmt::format("What neighbours cost {}, {}", matrix.case_name, arm_words(matrix.arm));
  std::set<double> levels;
  std::vector<std::string> rows;
  const NeighbourCell* worst = nullptr;
  for (const auto& cell : matrix.cells) {
    if (!cell.against_alone) { continue; }
    levels.insert(heat_level(cell));
    if (std::find(rows.begin(), rows.end(), heat_row(cell)) == rows.end()) { rows.push_back(heat_row(cell)); }
    if (worst == nullptr || cell.against_alone->loss > worst->against_alone->loss) { worst = &cell; }
  }
  chart.summary = fmt::format(
      "Share of the throughput alone that is lost beside a neighbour; a question mark: no verdict. The worst "
      "is {}: {}.",
      worst->neighbour, to_text(*worst->against_alone, true));
  chart.data["cells"] = chart.data["rows"] = chart.data["columns"] = nlohmann::json::array();
  for (const auto& cell : matrix.cells) {
    if (!cell.against_alone) { continue; }
    const auto row = std::find(rows.begin(), rows.end(), heat_row(cell)) - rows.begin();
    const auto column = std::distance(levels.begin(), levels.find(heat_level(cell)));
    chart.data["cells"].push_back(
        heat_cell(cell, static_cast<std::size_t>(row), static_cast<std::size_t>(column)));
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    chart.data["rows"].push_back({{"row", row}, {"words", rows[row]}});
  }
  std::size_t column = 0;
  for (const double level : levels) {
    const auto words = fmt::format("{:g} %", level * 100);
    chart.data["columns"].push_back(
        {{"column", column++}, {"words", words}, {"long_words", level > 0 ? "level " + words : "at rest"}});
  }
  chart.signals = {{"row_count", rows.size()}, {"column_count", levels.size()}};
  for (std::size_t heat = 0; heat < std::size(loss_class_words); ++heat) {
    chart.key.push_back({fmt::format("level-{}", heat), loss_class_words[heat]});
  }
  chart.table = without_empty_columns(isolation_table({matrix}));
  return chart;
}

}  // namespace

std::vector<Chart> neighbour_charts(const ReportData& data) {
  std::vector<Chart> charts;
  for (const auto& matrix : data.isolation.matrices) {
    const bool any = std::any_of(matrix.cells.begin(), matrix.cells.end(),
                                 [](const NeighbourCell& cell) { return cell.against_alone.has_value(); });
    if (any) { charts.push_back(neighbour_chart(matrix, charts.size() + 1)); }
  }
  return charts;
}

}  // namespace virtrain::results
