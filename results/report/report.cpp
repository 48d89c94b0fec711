#include "results/report/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "results/report/data/report_data.h"
#include "results/report/page/html.h"
#include "results/report/page/page.h"

namespace virtrain::results {

UndrawnReport read_report(const Store& store, const ReportRequest& request) {
  const auto data = read_report_data(store, request);
  const auto charts = charts_of(data);
  return {page_model(data, charts), charts_json(charts)};
}

DrawnPages draw_pages(const std::vector<nlohmann::json>& charts, const std::string& whom) {
  DrawnPages drawn{std::vector<Pictures>(charts.size()), {}};
  const auto has_charts = [](const nlohmann::json& page) { return !page["charts"].empty(); };
  if (std::ranges::none_of(charts, has_charts)) { return drawn; }
  try {
    drawn.pages = draw_charts(charts);
  } catch (const Error& error) {
    drawn.warning = fmt::format(
        "the charts of {} need scripts in the browser: their still pictures could not be drawn (apt-get "
        "install nodejs, then run this again): {}",
        whom, error.what());
  }
  return drawn;
}

Report make_report(const Store& store, const ReportRequest& request) {
  const auto report = read_report(store, request);
  const auto drawn = draw_pages({report.charts}, "the report");
  Report made{page_html(report.page, report.charts, drawn.pages.front()), {}};
  if (!drawn.warning.empty()) { made.warnings.push_back(drawn.warning); }
  return made;
}

}  // namespace virtrain::results
