#include "common/text/json.h"
#include "results/report/page/page.h"
#include "results/tables/tables.h"

namespace virtrain::results {
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
