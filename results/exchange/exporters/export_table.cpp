#include <algorithm>

#include "common/contains.h"
#include "results/exchange/exporters/exporters.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {

std::vector<std::string> experiments_to_export(const Store& store, const Selection& selection) {
  std::vector<std::string> ids;
  if (selection.all) {
    for (const auto& summary : store.list_experiments()) { ids.push_back(summary.experiment.id); }
    if (!ids.empty()) { return ids; }
  }
  const bool by_name_only =
      !selection.experiments.empty() && selection.scenario.empty() && selection.label.empty();
  if (!by_name_only) { return store.select(selection); }
  for (const auto& summary : store.list_experiments()) {
    const auto& wanted = selection.experiments;
    const auto& id = summary.experiment.id;
    if (contains(wanted, id)) { ids.push_back(id); }
  }
  return ids.size() == selection.experiments.size() ? ids : store.select(selection);
}

Table view_table(const Store& store, const std::vector<std::string>& experiments, const std::string& view) {
  const auto rows = store.view(view, experiments);
  Table table;
  for (std::size_t i = 0; i < rows.columns.size(); ++i) {
    const auto is_number = [&](const auto& row) { return row[i].is_number(); };
    table.columns.push_back({rows.columns[i], rows.columns[i], std::ranges::any_of(rows.rows, is_number)});
  }
  for (const auto& row : rows.rows) {
    auto& cells = table.rows.emplace_back();
    for (const auto& value : row) {
      const auto text = value.is_string() ? value.get<std::string>()
                        : value.is_null() ? ""
                                          : canonical_json(value);
      cells.push_back({value, text});
    }
  }
  return table;
}

}  // namespace virtrain::results
