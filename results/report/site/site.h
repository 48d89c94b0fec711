#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "results/statistics/statistics.h"
#include "results/store/store.h"

namespace virtrain::results {

/// Which site.
struct SiteRequest {
  std::string schedule = {};
  std::string scenario = {};         ///< whose nights it shows
  std::string command_line = {};     ///< that makes this site again
  std::string database_option = {};  ///< " --db FILE", where commands need it to find the database
  std::size_t nights = 90;           ///< pages are made for the last so many nights
  Settings settings = {};            ///< by which nights are judged
};

/// Pages that were written.
struct SiteReport {
  std::size_t written = 0;                 ///< pages of nights
  std::size_t kept = 0;                    ///< pages whose night did not change
  std::vector<std::string> warnings = {};  ///< sentences, as those of a Report
};

/// Writes index.html, the scenario's series over its nights, and a page for each of the last nights: the
/// report on its experiment. Pages stand for themselves and link to each other. A page whose data did not
/// change stays as it is. Links that lie in the folder are replaced, never followed. Error(not_found) where
/// the scenario has no nights.
SiteReport write_site(const Store& store, const SiteRequest& request, const std::filesystem::path& folder);

/// Name of the page of a night, which no experiment's id can lead out of its folder.
std::string page_name(const std::string& experiment);

}  // namespace virtrain::results
