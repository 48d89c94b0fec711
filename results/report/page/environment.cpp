#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "results/report/page/page.h"

namespace virtrain::results {
namespace {

std::string rule_words(FactRule rule) {
  switch (rule) {
    case FactRule::must_be_equal:
      return "must be equal";
    case FactRule::explained_by_the_arm:
      return "explained by the arm";
    case FactRule::informative:
      break;
  }
  return "for information";
}

/// One difference and the cases that have it.
struct Shared {
  const FactDifference* difference;
  std::vector<std::string> cases;
};

std::vector<Shared> shared_differences(const ReportData& data) {
  std::vector<Shared> list;
  for (const auto& comparison : data.comparisons) {
    for (const auto& difference : comparison.differences) {
      auto known = std::ranges::find_if(list, [&](const Shared& one) {
        return one.difference->field == difference.field && one.difference->baseline == difference.baseline &&
               one.difference->candidate == difference.candidate &&
               one.difference->detail == difference.detail;
      });
      if (known == list.end()) { known = list.insert(list.end(), {&difference, {}}); }
      known->cases.push_back(comparison.case_name);
    }
  }
  std::stable_partition(list.begin(), list.end(), [](const Shared& one) { return forbids(*one.difference); });
  return list;
}

std::string cases_words(const std::vector<std::string>& cases, std::size_t all) {
  if (cases.size() == all) { return all == 1 ? "the case" : "all cases"; }
  return fmt::format("{}", fmt::join(cases, ", "));
}

Table difference_table(const ReportData& data) {
  Table table;
  table.columns = {{"fact", "Fact"},
                   {"baseline", arm_words(data.request.compare.baseline)},
                   {"candidate", arm_words(data.request.compare.candidate)},
                   {"meaning", "Meaning"},
                   {"cases", "In"}};
  for (const auto& [difference, cases] : shared_differences(data)) {
    auto meaning = rule_words(difference->rule);
    if (forbids(*difference)) { meaning += ": forbids a verdict"; }
    for (const auto& more : {difference->detail, difference->why}) {
      if (!more.empty()) { meaning += " (" + more + ")"; }
    }
    table.rows.push_back({cell(difference->field),
                          cell(fmt::format("{}", fmt::join(difference->baseline, ", "))),
                          cell(fmt::format("{}", fmt::join(difference->candidate, ", "))), cell(meaning),
                          cell(cases_words(cases, data.comparisons.size()))});
  }
  return table;
}

/// Every fact of every arm; one column where all arms that know it agree.
Table fact_table(const ReportData& data) {
  std::set<std::string> fields;
  for (const auto& [arm, facts] : data.facts) {
    for (const auto& [field, values] : facts) { fields.insert(field); }
  }
  Table table;
  table.columns = {{"fact", "Fact"}, {"value", "Value"}, {"arms", "Where"}};
  for (const auto& field : fields) {
    std::map<std::string, std::vector<std::string>> arms_of_value;
    std::size_t knowing = 0;
    for (const auto& [arm, facts] : data.facts) {
      const auto found = facts.find(field);
      if (found == facts.end()) { continue; }
      ++knowing;
      arms_of_value[fmt::format("{}", fmt::join(found->second, ", "))].push_back(arm_words(arm));
    }
    for (const auto& [value, arms] : arms_of_value) {
      const bool everywhere = arms.size() == data.facts.size() && knowing == arms.size();
      table.rows.push_back({cell(field), cell(value),
                            cell(everywhere ? "everywhere" : fmt::format("{}", fmt::join(arms, ", ")))});
    }
  }
  return table;
}

}  // namespace

nlohmann::json environment_model(const ReportData& data) {
  const auto differences = difference_table(data);
  const auto facts = fact_table(data);
  auto tables = nlohmann::json::array();
  if (!differences.rows.empty()) {
    tables.push_back(table_model(differences, "What differs between the arms"));
  }
  std::string lead =
      differences.rows.empty() && !facts.rows.empty() ? "No fact that is known on both sides differs." : "";
  return {{"lead", lead},
          {"has_lead", !lead.empty()},
          {"tables", tables},
          {"has_facts", !facts.rows.empty()},
          {"facts", table_model(facts, "All facts that were recorded")},
          {"empty", differences.rows.empty() && facts.rows.empty()}};
}

}  // namespace virtrain::results
