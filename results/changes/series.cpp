#include "results/changes/series.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>

#include "common/text/sha256.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

/// Comments, empty lines and spaces at ends of lines change nothing.
std::string version_of(const std::string& scenario_text) {
  std::string essence;
  for (const auto& line : split(scenario_text, '\n')) {
    const auto words = trim(line);
    if (words.empty() || words.front() == '#') { continue; }
    const auto end = line.find_last_not_of(" \t\r");
    essence += line.substr(0, end + 1) + "\n";
  }
  constexpr std::size_t digits = 8;
  return sha256(essence).substr(0, digits);
}

}  // namespace

std::string Series::name() const {
  return fmt::format("{}/{}{}{}/{}", scenario, case_name, case_name.empty() ? "" : "/", arm, figure);
}

std::vector<Series> series_of(std::span<const Night> nights, std::span<const NightFigure> figures) {
  std::map<std::int64_t, std::vector<const NightFigure*>> figures_of;
  for (const auto& figure : figures) {
    if (std::isfinite(figure.value) && figure.value > 0) { figures_of[figure.night].push_back(&figure); }
  }
  std::map<std::string, std::string> versions;  // of texts: most nights have the same
  std::map<std::string, std::string> present;   // version of each scenario
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::size_t> places;
  std::vector<Series> all;
  for (const auto& night : nights) {
    const auto of_night = figures_of.find(night.number);
    if (of_night == figures_of.end()) { continue; }
    auto& version = versions[night.scenario_text];
    if (version.empty()) { version = version_of(night.scenario_text); }
    present[night.scenario] = version;
    for (const auto* figure : of_night->second) {
      const auto [place, fresh] = places.try_emplace(
          {night.scenario, version, figure->case_name, figure->arm, figure->figure}, all.size());
      if (fresh) {
        all.push_back(
            {night.scenario, version, true, figure->case_name, figure->arm, figure->figure, figure->unit});
      }
      all[place->second].nights.push_back(&night);
      all[place->second].values.push_back(figure->value);
    }
  }
  for (auto& series : all) { series.current = present.at(series.scenario) == series.version; }
  return all;
}

}  // namespace virtrain::results
