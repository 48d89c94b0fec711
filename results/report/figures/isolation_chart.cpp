#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "common/contains.h"
#include "results/comparison/verdict.h"
#include "results/report/data/course.h"
#include "results/report/figures/figures.h"
#include "results/tables/isolation_table.h"

namespace virtrain::results {
namespace {

/// Values that end a class of a map, and the classes, which have colours of their own in light and dark.
struct HeatClasses {
  double ends[5];
  const char* words[6];
};
constexpr HeatClasses slowdown_classes = {
    {1.02, 1.1, 1.25, 1.5, 2}, {"below 1.02×", "to 1.1×", "to 1.25×", "to 1.5×", "to 2×", "2× and more"}};
constexpr HeatClasses loss_classes = {
    {0.02, 0.05, 0.1, 0.25, 0.5}, {"below 2 %", "to 5 %", "to 10 %", "to 25 %", "to 50 %", "50 % and more"}};

nlohmann::json heat_cell(const HeatClasses& classes, double value, std::ptrdiff_t row, std::ptrdiff_t column,
                         const std::string& words, const std::string& tip) {
  const auto level = std::ranges::upper_bound(classes.ends, value) - classes.ends;
  return {{"row", row},
          {"column", column},
          {"fill", fmt::format("var(--heat-{})", level)},
          {"ink", fmt::format("var(--heat-ink-{})", level)},
          {"words", words},
          {"tip", tip}};
}

/// A map without its cells, rows and columns.
Chart heat_map(const std::string& id, const HeatClasses& classes) {
  Chart chart;
  chart.id = id;
  chart.spec = "isolation";
  chart.data["cells"] = chart.data["rows"] = chart.data["columns"] = nlohmann::json::array();
  for (std::size_t level = 0; level < std::size(classes.words); ++level) {
    chart.key.push_back({fmt::format("level-{}", level), classes.words[level]});
  }
  return chart;
}

struct Row {
  std::string case_name;
  std::string arm;
  const TenantsAlone* alone;
};

std::vector<Row> rows_of(const ReportData& data) {
  std::vector<Row> rows;
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    for (const auto& arm : comparison.arms) {
      if (arm.alone && !arm.alone->tenants.empty()) {
        rows.push_back({comparison.case_name + in_unit(arm.unit), arm_words(arm.arm), &*arm.alone});
      }
    }
  }
  return rows;
}

nlohmann::json cell_of(const Row& row, std::size_t number, std::ptrdiff_t column, const TenantAlone& tenant) {
  return heat_cell(
      slowdown_classes, tenant.slowdown, static_cast<std::ptrdiff_t>(number), column,
      fmt::format("{:.2f}×", tenant.slowdown),
      fmt::format("{}, {}\n{}\nalone: {:.1f} {}\nnext to others: {:.1f} {}\nslowdown {:.3f}×", row.case_name,
                  row.arm, tenant_name(tenant.tenant_index, tenant.name), tenant.alone_throughput,
                  tenant.unit, tenant.shared_throughput, tenant.unit, tenant.slowdown));
}

std::optional<double> inflation_of(const TenantAlone& tenant) {
  return tenant.tail && tenant.tail->ci ? std::optional(tenant.tail->inflation) : std::nullopt;
}

Table table_of(const std::vector<Row>& rows) {
  std::vector<std::string> units;
  for (const auto& row : rows) {
    for (const auto& tenant : row.alone->tenants) { add_once(units, tenant.unit); }
  }
  Table table;
  table.columns = {{"case", "Case"},
                   {"arm", "Arm"},
                   {"tenant", "Tenant"},
                   {"alone_case", "Alone in"},
                   {"alone", units.size() == 1 ? "Alone, " + units.front() : "Alone", true},
                   {"shared", "Next to others", true},
                   {"slowdown", "Slowdown", true},
                   {"p99_inflation", "p99 of step times, shared / alone", true}};
  for (const auto& row : rows) {
    for (const auto& tenant : row.alone->tenants) {
      table.rows.push_back({cell(row.case_name), cell(row.arm),
                            cell(tenant_name(tenant.tenant_index, tenant.name)), cell(tenant.alone_case),
                            cell(std::optional(tenant.alone_throughput), 1),
                            cell(std::optional(tenant.shared_throughput), 1),
                            cell(std::optional(tenant.slowdown), 3), cell(inflation_of(tenant), 3)});
    }
    const auto few = [](const TenantAlone& tenant) { return tenant.tail && !tenant.tail->ci; };
    if (std::ranges::any_of(row.alone->tenants, few)) {
      table.notes.push_back(fmt::format("{}, {}: too few steps for a 99th percentile with an interval.",
                                        row.case_name, row.arm));
    }
    if (const auto& isolation = row.alone->isolation) {
      table.notes.push_back(
          fmt::format("{}, {}: system throughput {:.3f} of {}, mean slowdown {:.3f}, fairness (Jain) {:.3f}.",
                      row.case_name, row.arm, isolation->system_throughput, isolation->slowdowns.size(),
                      isolation->mean_slowdown, isolation->jain_index));
    }
  }
  return table;
}

std::string summary_of(const std::vector<Row>& rows) {
  const Row* worst_row = nullptr;
  const TenantAlone* worst = nullptr;
  for (const auto& row : rows) {
    for (const auto& tenant : row.alone->tenants) {
      if (worst != nullptr && tenant.slowdown <= worst->slowdown) { continue; }
      worst = &tenant;
      worst_row = &row;
    }
  }
  return fmt::format(
      "Slowdown is a tenant's throughput alone divided by its throughput next to others: 1 is undisturbed. "
      "The most disturbed is {} of {} ({}) with {:.2f}×.",
      tenant_name(worst->tenant_index, worst->name), worst_row->case_name, worst_row->arm, worst->slowdown);
}

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

/// Matrices of one victim in one unit, an arm each.
using ArmsOfVictim = std::vector<const IsolationMatrix*>;

/// "47 to 53"; of a narrow one "49.8 to 50.4", so that its ends are apart.
std::string loss_interval_words(const Interval& share) {
  const auto low = whole_percents(share.low), high = whole_percents(share.high);
  return low != high ? low + " to " + high
                     : fmt::format("{:.1f} to {:.1f}", share.low * 100, share.high * 100);
}

/// Adds a cell of the map, its row and its column. The loss stands above its interval.
void add_loss(const NeighbourCell& cell, const std::string& row, std::ptrdiff_t column,
              const std::string& arm, std::vector<std::string>& rows, Chart& chart) {
  add_once(rows, row);
  const auto& alone = *cell.against_alone;
  auto drawn = heat_cell(loss_classes, alone.loss, std::ranges::find(rows, row) - rows.begin(), column,
                         fmt::format("{} %{}", whole_percents(alone.loss), is_decided(alone) ? "" : " ?"),
                         fmt::format("{} next to {}\n{}", arm, cell.neighbour, to_text(alone, true)));
  if (alone.loss_ci) { drawn["interval"] = loss_interval_words(*alone.loss_ci); }
  chart.data["cells"].push_back(std::move(drawn));
}

void add_column(const std::string& words, const std::string& long_words, Chart& chart) {
  chart.data["columns"].push_back(
      {{"column", chart.data["columns"].size()}, {"words", words}, {"long_words", long_words}});
}

/// A row for each aggressor, a column for each level.
void add_levels(const IsolationMatrix& matrix, std::vector<std::string>& rows, Chart& chart) {
  std::set<double> levels;
  for (const auto& cell : matrix.cells) {
    if (cell.against_alone) { levels.insert(heat_level(cell)); }
  }
  for (const auto& cell : matrix.cells) {
    if (!cell.against_alone) { continue; }
    const auto column = std::distance(levels.begin(), levels.find(heat_level(cell)));
    add_loss(cell, heat_row(cell), column, arm_words(matrix.arm), rows, chart);
  }
  for (const double level : levels) {
    const auto words = fmt::format("{:g} %", level * 100);
    add_column(words, level > 0 ? "level " + words : "at rest", chart);
  }
}

/// A row for each neighbour, a column for each arm: mitigations stand side by side.
void add_arms(const ArmsOfVictim& arms, std::vector<std::string>& rows, Chart& chart) {
  for (const auto* matrix : arms) {
    const auto column = std::ssize(chart.data["columns"]);
    for (const auto& cell : matrix->cells) {
      if (cell.against_alone) { add_loss(cell, cell.neighbour, column, arm_words(matrix->arm), rows, chart); }
    }
    add_column(arm_words(matrix->arm), arm_words(matrix->arm), chart);
  }
}

Chart neighbour_chart(const ArmsOfVictim& arms, std::size_t index) {
  const auto& first = *arms.front();
  const bool several = arms.size() > 1;
  Chart chart = heat_map(fmt::format("neighbours-{}", index), loss_classes);
  chart.section = "neighbours";
  chart.title = fmt::format("What neighbours cost {}, {}{}", first.case_name,
                            several ? "arm by arm" : arm_words(first.arm), in_unit(first.unit));
  std::vector<IsolationMatrix> shown;
  for (const auto* matrix : arms) { shown.push_back(*matrix); }
  const auto& worst = **std::ranges::max_element(
      arms, {}, [](const auto* matrix) { return worst_cell(*matrix)->against_alone->loss; });
  chart.summary = fmt::format(
      "Share of the throughput alone that is lost next to a neighbour, with its interval ({}); a "
      "question mark: no verdict. Most is lost in {} next to {}: {}.",
      level_words(first.settings.alpha), arm_words(worst.arm), worst_cell(worst)->neighbour,
      to_text(*worst_cell(worst)->against_alone, true));
  std::vector<std::string> rows;
  if (several) {
    add_arms(arms, rows, chart);
  } else {
    add_levels(first, rows, chart);
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    chart.data["rows"].push_back({{"row", row}, {"words", rows[row]}});
  }
  chart.signals = {
      {"row_count", rows.size()}, {"column_count", chart.data["columns"].size()}, {"names_aside", true}};
  chart.table = without_empty_columns(isolation_table(shown));
  return chart;
}

}  // namespace

std::vector<Chart> isolation_charts(const ReportData& data) {
  const auto rows = rows_of(data);
  if (rows.empty()) { return {}; }
  Chart chart = heat_map("isolation", slowdown_classes);
  chart.title = "How much tenants slow each other down";
  chart.summary = summary_of(rows);
  std::set<std::int64_t> tenants;  // a column for each that there is: imported numbers may have gaps
  for (const auto& row : rows) {
    for (const auto& tenant : row.alone->tenants) { tenants.insert(tenant.tenant_index); }
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    chart.data["rows"].push_back({{"row", r}, {"words", rows[r].case_name + ", " + rows[r].arm}});
    for (const auto& tenant : rows[r].alone->tenants) {
      const auto column = std::distance(tenants.begin(), tenants.find(tenant.tenant_index));
      chart.data["cells"].push_back(cell_of(rows[r], r, column, tenant));
    }
  }
  for (const auto index : tenants) {
    chart.data["columns"].push_back({{"column", chart.data["columns"].size()},
                                     {"words", std::to_string(index + 1)},
                                     {"long_words", fmt::format("tenant {}", index + 1)}});
  }
  chart.signals = {{"row_count", rows.size()}, {"column_count", tenants.size()}};
  chart.table = table_of(rows);
  return {chart};
}

std::vector<Chart> neighbour_charts(const ReportData& data) {
  std::vector<ArmsOfVictim> victims;
  for (const auto& matrix : data.isolation.matrices) {
    if (worst_cell(matrix) == nullptr) { continue; }
    const auto known = std::ranges::find_if(victims, [&](const ArmsOfVictim& arms) {
      return arms.front()->case_name == matrix.case_name && arms.front()->unit == matrix.unit;
    });
    (known == victims.end() ? victims.emplace_back() : *known).push_back(&matrix);
  }
  const auto is_varied = [&](const IsolationMatrix* matrix) {  // and not a mitigation itself
    return std::ranges::none_of(data.isolation.mitigations,
                                [&](const Mitigation& one) { return one.arm == matrix->arm; });
  };
  std::vector<Chart> charts;
  for (auto& arms : victims) {
    std::ranges::stable_partition(arms, is_varied);
    charts.push_back(neighbour_chart(arms, charts.size() + 1));
  }
  return charts;
}

}  // namespace virtrain::results
