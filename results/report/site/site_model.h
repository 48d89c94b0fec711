#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

#include "results/changes/change_groups.h"
#include "results/changes/series_state.h"
#include "results/report/charts/chart.h"
#include "results/report/site/site.h"

namespace virtrain::results {

/// Values of the first page.
struct SiteData {
  SiteRequest request;
  std::string database;
  std::vector<const Night*> nights;                         ///< of the scenario, in the order of storing
  std::vector<SeriesState> series;                          ///< losses first
  std::vector<ChangeGroup> groups;                          ///< as change_groups() orders them
  std::function<std::string(const Night&)> link = nullptr;  ///< of the night's page; empty: it has none
};

/// A figure for each series, in their order.
std::vector<Chart> site_charts(const SiteData& data);
/// Values for templates/site.html, as plain texts. Pure.
nlohmann::json site_model(const SiteData& data, const std::vector<Chart>& charts);

}  // namespace virtrain::results
