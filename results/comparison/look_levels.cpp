#include "results/comparison/look_levels.h"

#include "common/text/json.h"

namespace virtrain::results {
namespace {

Settings at_reporting_tail(Settings settings) {
  settings.alpha = settings.reporting_tail;
  return settings;
}

}  // namespace

LookLevels::LookLevels(const Looks& looks, const Settings& settings)
    : settings_(settings), tests_(looks, settings), reporting_(looks, at_reporting_tail(settings)) {}

Settings LookLevels::settings_after(std::int64_t pairs) const {
  Settings now = settings_;
  now.alpha = tests_.level(pairs);
  now.reporting_tail = reporting_.level(pairs);
  return now;
}

std::optional<Looks> looks_of(const ComparisonExperiment& experiment) {
  if (experiment.looks.empty()) { return std::nullopt; }
  const auto said = parse_json_or_null(experiment.looks);
  const auto number = [&](const char* key) -> std::int64_t {
    return said.is_object() && said.contains(key) && said[key].is_number_integer()
               ? said[key].get<std::int64_t>()
               : 0;
  };
  const Looks looks{number("at_most"), number("every"), number("first")};
  const bool possible =
      looks.first >= 1 && looks.every >= 1 && looks.at_most >= looks.first && looks.at_most <= most_looks;
  return possible ? std::optional(looks) : std::nullopt;
}

}  // namespace virtrain::results
