#pragma once

#include <string>
#include <vector>

#include "results/report/charts/draw_charts.h"
#include "results/report/data/report_data.h"

namespace virtrain::results {

/// One HTML file that stands for itself: styles, data, charts and scripts are inside, nothing is fetched.
struct Report {
  std::string html;
  std::vector<std::string> warnings;  ///< sentences: what could not be drawn, and what to do
};

/// Reads the selection and writes the report on it. Error(not_found) where nothing is selected; where node
/// cannot run, charts need scripts in the browser and a warning says so.
Report make_report(const Store& store, const ReportRequest& request);

/// A report without its pictures, which are drawn for several reports at once.
struct UndrawnReport {
  nlohmann::json page;
  nlohmann::json charts;
};
UndrawnReport read_report(const Store& store, const ReportRequest& request);

/// Pictures of several pages' charts. Without node there are none, and the warning says so.
struct DrawnPages {
  std::vector<Pictures> pages;
  std::string warning;  ///< of the charts of `whom`; empty where they were drawn
};
DrawnPages draw_pages(const std::vector<nlohmann::json>& charts, const std::string& whom);

}  // namespace virtrain::results
