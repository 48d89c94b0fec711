#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/text/json.h"
#include "results/report/page/page.h"
#include "results/tables/tables.h"

namespace virtrain::results {
namespace {

std::string rule_words(FactRule rule) {
  switch (rule) {
    case FactRule::must_be_equal:
      return "must be equal";
    case FactRule::explained_by_the_arm:
      return "explained by the arm";
    case FactRule::part_of_the_change:
      return "part of what changed";
    case FactRule::informative:
      break;
  }
  return "for information";
}

/// One difference between two arms and the cases that have it.
struct Shared {
  const CaseComparison* arms;
  const FactDifference* difference;
  std::vector<std::string> cases;
};

bool has_same_arms(const CaseComparison& one, const CaseComparison& other) {
  return one.baseline == other.baseline && one.candidate == other.candidate && one.arm == other.arm;
}

std::vector<Shared> shared_differences(const ReportData& data) {
  std::vector<Shared> list;
  for (const auto& comparison : data.comparisons) {
    for (const auto& difference : comparison.differences) {
      auto known = std::ranges::find_if(list, [&](const Shared& one) {
        return has_same_arms(*one.arms, comparison) && one.difference->field == difference.field &&
               one.difference->baseline == difference.baseline &&
               one.difference->candidate == difference.candidate &&
               one.difference->detail == difference.detail;
      });
      if (known == list.end()) { known = list.insert(list.end(), {&comparison, &difference, {}}); }
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
  const auto shared = shared_differences(data);
  if (shared.empty()) { return {}; }
  const auto& first = *shared.front().arms;
  const bool same_arms =
      std::ranges::all_of(shared, [&](const Shared& one) { return has_same_arms(*one.arms, first); });
  Table table;
  table.columns = {{"fact", "Property"},
                   {"baseline", same_arms ? arm_words(first.baseline) : "Baseline"},
                   {"candidate", same_arms ? arm_words(first.candidate) : "Candidate"},
                   {"meaning", "Meaning"},
                   {"cases", "In"}};
  for (const auto& [arms, difference, cases] : shared) {
    auto meaning = rule_words(difference->rule);
    if (forbids(*difference)) { meaning += ": forbids a verdict"; }
    for (const auto& more : {difference->detail, difference->why}) {
      if (!more.empty()) { meaning += " (" + more + ")"; }
    }
    const auto compared = std::ranges::count_if(
        data.comparisons, [&arms = *arms](const auto& one) { return has_same_arms(one, arms); });
    auto where = cases_words(cases, static_cast<std::size_t>(compared));
    if (!same_arms) {
      where = fmt::format("{} against {}: {}", arm_words(arms->candidate), arm_words(arms->baseline), where);
    }
    table.rows.push_back(
        {cell(difference->field), cell(fmt::format("{}", fmt::join(difference->baseline, ", "))),
         cell(fmt::format("{}", fmt::join(difference->candidate, ", "))), cell(meaning), cell(where)});
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
  table.columns = {{"fact", "Property"}, {"value", "Value"}, {"arms", "Where"}};
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
  std::string lead = differences.rows.empty() && !facts.rows.empty()
                         ? "No property that is known on both sides differs."
                         : "";
  return {{"lead", lead},
          {"has_lead", !lead.empty()},
          {"tables", tables},
          {"has_facts", !facts.rows.empty()},
          {"facts", table_model(facts, "All properties that were recorded")},
          {"empty", differences.rows.empty() && facts.rows.empty()}};
}

namespace {

using nlohmann::json;

json experiment_model(const Experiment& experiment) {
  json facts = json::array();
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) { facts.push_back({{"name", name}, {"fact", value}}); }
  };
  for (const auto& [name, fact] : experiment_facts(experiment)) { add(name, fact); }
  if (experiment.daemon_versions.is_object()) {
    for (const auto& [name, version] : experiment.daemon_versions.items()) {
      add(name.c_str(), version.is_string() ? version.get<std::string>() : dump_json(version));
    }
  }
  return {{"id", experiment.id},
          {"facts", facts},
          {"has_command", !experiment.command_line.empty()},
          {"command", experiment.command_line},
          {"has_scenario_text", !experiment.scenario_text.empty()},
          {"scenario_text", experiment.scenario_text}};
}

}  // namespace

json again_model(const ReportData& data) {
  json experiments = json::array();
  for (const auto& experiment : data.experiments) { experiments.push_back(experiment_model(experiment)); }
  return {{"experiments", experiments},
          {"report_command", data.request.command_line},
          {"database", data.database}};
}

}  // namespace virtrain::results
