#include <fmt/format.h>

#include <set>

#include "results/report/page/page.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

Table table_of(const Prediction& prediction) {
  Table table;
  table.columns = {{"nodes", "Nodes", true},
                   {"measured", "Measured, images/s", true},
                   {"predicted", "By the model", true},
                   {"low", "from", true},
                   {"high", "to", true},
                   {"ideal", "Ideal", true},
                   {"held_out_error", "Error when held out", true}};
  for (const auto& point : prediction.points) {
    const auto limit = [&](double Interval::*side) {
      return cell(point.bound ? figure_words(*point.bound.*side) : "");
    };
    table.rows.push_back({cell(point.nodes), cell(point.measured ? figure_words(*point.measured) : ""),
                          cell(figure_words(point.predicted)), limit(&Interval::low), limit(&Interval::high),
                          cell(figure_words(point.ideal)), share_cell(point.held_out_error)});
  }
  table.notes = prediction.notes;
  return table;
}

}  // namespace

json reasons_model(const ReportData& data) {
  json cases = json::array();
  for (const auto& comparison : data.comparisons) {
    const auto& explanation = comparison.explanation;
    if (!explanation || explanation->findings.empty()) { continue; }
    json sentences_of_case = json::array();
    for (const auto& sentence : sentences(*explanation)) {
      sentences_of_case.push_back({{"sentence", sentence}});
    }
    cases.push_back({{"name", comparison.case_name}, {"sentences", sentences_of_case}});
  }
  if (cases.empty()) { return false; }
  return {{"cases", cases}};
}

json predictions_model(const ReportData& data) {
  json tables = json::array();
  std::set<std::string> seen;
  for (const auto& comparison : data.comparisons) {
    for (const auto& arm : comparison.arms) {
      if (!arm.prediction || !arm.scaling) { continue; }
      // Every size of a weak scaling carries the same prediction.
      const std::string family = comparison.case_name.substr(0, comparison.case_name.rfind('/'));
      const std::string caption = fmt::format("{}, {}", family, arm_words(arm.arm));
      if (seen.insert(caption).second) { tables.push_back(table_model(table_of(*arm.prediction), caption)); }
    }
  }
  if (tables.empty()) { return false; }
  return {{"tables", tables}};
}

}  // namespace virtrain::results
