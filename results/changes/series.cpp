#include "results/changes/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/text/text.h"
#include "results/changes/scenario_version.h"

namespace virtrain::results {
namespace {

/// "1024,8" as "8+1024".
std::string sorted_sizes(const std::string& sizes) {
  auto all = split(sizes, ',');
  std::ranges::sort(all, [](const std::string& one, const std::string& other) {
    return std::pair(one.size(), one) < std::pair(other.size(), other);
  });
  return fmt::format("{}", fmt::join(all, "+"));
}

}  // namespace

std::string Series::figure_name() const {
  return figure + (imported && is_one_of_two ? " (imported)" : "");
}

std::string Series::name() const {
  return key().substr(0, key().size() - figure.size()) + figure_name();
}

std::string Series::key() const {
  return fmt::format("{}/{}{}{}/{}", scenario, case_name, case_name.empty() ? "" : "/", arm, figure);
}

std::vector<Series> series_of(std::span<const Night> nights, std::span<const NightFigure> figures) {
  std::map<std::int64_t, std::vector<const NightFigure*>> figures_of;
  for (const auto& figure : figures) {
    if (std::isfinite(figure.value) && figure.value > 0) { figures_of[figure.night].push_back(&figure); }
  }
  std::map<std::string, std::string> versions;  // of texts: most nights have the same
  // Version of each scenario, of nights that ran here and of imported ones, which are series of their own.
  std::map<std::pair<std::string, bool>, std::string> present;
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, bool>;
  std::map<Key, std::size_t> places;
  // A mean over other sizes, with other settings or in another unit is another figure of the same name.
  std::map<Key, std::string> first_sizes, first_apart, first_units;
  std::vector<Series> all;
  for (const auto& night : nights) {
    const auto of_night = figures_of.find(night.number);
    if (of_night == figures_of.end()) { continue; }
    auto& version = versions[night.scenario_text];
    if (version.empty()) { version = scenario_version(night.scenario_text); }
    const bool imported = night.imported || night.host_name.empty();
    present[{night.scenario, imported}] = version;
    for (const auto* figure : of_night->second) {
      Key key{night.scenario, version, figure->case_name, figure->arm, figure->figure, imported};
      auto& name = std::get<4>(key);
      const auto keep_apart = [&](auto& first, const std::string& value, const std::string& ending) {
        if (first.try_emplace(key, value).first->second != value) { name += ending; }
      };
      const auto sizes = sorted_sizes(figure->sizes);
      keep_apart(first_sizes, sizes, "." + (sizes.empty() ? "no-size" : sizes));
      keep_apart(first_apart, figure->apart, figure->apart.empty() ? ".not-said" : figure->apart);
      keep_apart(first_units, figure->unit, " in " + figure->unit);
      const auto [place, fresh] = places.try_emplace(key, all.size());
      if (fresh) {
        all.push_back({night.scenario, version, true, imported, false, figure->case_name, figure->arm,
                       figure->kind, name, figure->unit});
      }
      all[place->second].nights.push_back(&night);
      all[place->second].values.push_back(figure->value);
    }
  }
  std::map<std::string, std::set<bool>> kinds;
  for (auto& series : all) {
    series.current = present.at({series.scenario, series.imported}) == series.version;
    kinds[series.key()].insert(series.imported);
  }
  for (auto& series : all) { series.is_one_of_two = kinds.at(series.key()).size() > 1; }
  return all;
}

}  // namespace virtrain::results
