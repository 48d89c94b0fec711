#include "results/changes/series.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>

#include "common/text/sha256.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

/// Where a comment of YAML begins; else the line's end. A "#" in quotes is none: where quotes are open, the
/// rest of the line is kept as it is.
std::size_t comment_of(const std::string& line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool after_blank = i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t';
    if (quote == 0 && line[i] == '#' && after_blank) { return i; }
    if (line[i] != '"' && line[i] != '\'') { continue; }
    if (quote == 0) {
      quote = line[i];
    } else if (quote == line[i]) {
      quote = 0;
    }
  }
  return line.size();
}

/// Comments, empty lines and spaces at ends of lines change nothing.
std::string version_of(const std::string& scenario_text) {
  std::string essence;
  for (const auto& line : split(scenario_text, '\n')) {
    const auto words = line.substr(0, comment_of(line));
    const auto end = words.find_last_not_of(" \t\r");
    if (end != std::string::npos) { essence += words.substr(0, end + 1) + "\n"; }
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
