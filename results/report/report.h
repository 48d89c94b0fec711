#pragma once

#include <string>
#include <vector>

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

}  // namespace virtrain::results
