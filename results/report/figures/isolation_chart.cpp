#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "results/report/data/course.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

// Slowdowns that end a class of the map; the classes have colours of their own in light and dark.
constexpr double class_ends[] = {1.02, 1.1, 1.25, 1.5, 2};
constexpr const char* class_words[] = {"below 1.02×", "to 1.1×", "to 1.25×",
                                       "to 1.5×",     "to 2×",   "2× and more"};

struct Row {
  std::string case_name;
  std::string arm;
  const TenantsAlone* alone;
};

std::ptrdiff_t class_of(double slowdown) {
  return std::upper_bound(std::begin(class_ends), std::end(class_ends), slowdown) - std::begin(class_ends);
}

std::vector<Row> rows_of(const ReportData& data) {
  std::vector<Row> rows;
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    for (const auto& arm : comparison.arms) {
      if (arm.alone && !arm.alone->tenants.empty()) {
        rows.push_back({comparison.case_name, arm_words(arm.arm), &*arm.alone});
      }
    }
  }
  return rows;
}

nlohmann::json cells_of(const std::vector<Row>& rows) {
  auto cells = nlohmann::json::array();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const auto& tenant : rows[r].alone->tenants) {
      const auto level = class_of(tenant.slowdown);
      cells.push_back(
          {{"row", r},
           {"column", tenant.tenant_index},
           {"fill", fmt::format("var(--heat-{})", level)},
           {"ink", fmt::format("var(--heat-ink-{})", level)},
           {"words", fmt::format("{:.2f}×", tenant.slowdown)},
           {"tip",
            fmt::format("{}, {}\n{}\nalone: {:.1f} images/s\nnext to others: {:.1f} images/s\n"
                        "slowdown {:.3f}×",
                        rows[r].case_name, rows[r].arm, tenant_name(tenant.tenant_index, tenant.name),
                        tenant.alone_images_per_second, tenant.shared_images_per_second, tenant.slowdown)}});
    }
  }
  return cells;
}

std::optional<double> inflation_of(const TenantAlone& tenant) {
  return tenant.tail ? std::optional(tenant.tail->inflation) : std::nullopt;
}

Table table_of(const std::vector<Row>& rows) {
  Table table;
  table.columns = {{"case", "Case"},
                   {"arm", "Arm"},
                   {"tenant", "Tenant"},
                   {"alone_case", "Alone in"},
                   {"alone", "Alone, images/s", true},
                   {"shared", "Next to others", true},
                   {"slowdown", "Slowdown", true},
                   {"p99_inflation", "p99 of step times, shared / alone", true}};
  for (const auto& row : rows) {
    for (const auto& tenant : row.alone->tenants) {
      table.rows.push_back({cell(row.case_name), cell(row.arm),
                            cell(tenant_name(tenant.tenant_index, tenant.name)), cell(tenant.alone_case),
                            cell(std::optional(tenant.alone_images_per_second), 1),
                            cell(std::optional(tenant.shared_images_per_second), 1),
                            cell(std::optional(tenant.slowdown), 3), cell(inflation_of(tenant), 3)});
    }
    const auto few = [](const TenantAlone& tenant) { return tenant.tail && tenant.tail->few_samples; };
    if (std::any_of(row.alone->tenants.begin(), row.alone->tenants.end(), few)) {
      table.notes.push_back(fmt::format("{}, {}: fewer than 100 steps stand behind a 99th percentile.",
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
      "The most "
      "disturbed is {} of {} ({}) with {:.2f}×.",
      tenant_name(worst->tenant_index, worst->name), worst_row->case_name, worst_row->arm, worst->slowdown);
}

}  // namespace

std::vector<Chart> isolation_charts(const ReportData& data) {
  const auto rows = rows_of(data);
  if (rows.empty()) { return {}; }
  Chart chart;
  chart.id = "isolation";
  chart.spec = "isolation";
  chart.title = "How much tenants slow each other down";
  chart.summary = summary_of(rows);
  chart.data["cells"] = cells_of(rows);
  chart.data["rows"] = nlohmann::json::array();
  std::int64_t columns = 1;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    chart.data["rows"].push_back({{"row", r}, {"words", rows[r].case_name + ", " + rows[r].arm}});
    for (const auto& tenant : rows[r].alone->tenants) {
      columns = std::max(columns, tenant.tenant_index + 1);
    }
  }
  chart.data["columns"] = nlohmann::json::array();
  for (std::int64_t column = 0; column < columns; ++column) {
    chart.data["columns"].push_back({{"column", column},
                                     {"words", std::to_string(column + 1)},
                                     {"long_words", fmt::format("tenant {}", column + 1)}});
  }
  chart.signals = {{"row_count", rows.size()}, {"column_count", columns}};
  for (std::size_t level = 0; level < std::size(class_words); ++level) {
    chart.key.push_back({fmt::format("level-{}", level), class_words[level]});
  }
  chart.table = table_of(rows);
  return {chart};
}

}  // namespace virtrain::results
