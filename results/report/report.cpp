#include "results/report/report.h"

#include "common/error.h"
#include "results/report/data/report_data.h"
#include "results/report/page/html.h"
#include "results/report/page/page.h"

namespace virtrain::results {

Report make_report(const Store& store, const ReportRequest& request) {
  const auto data = read_report_data(store, request);
  const auto charts = charts_of(data);
  const auto drawable = charts_json(charts);
  Report report;
  Pictures pictures;
  try {
    if (!charts.empty()) { pictures = draw_charts(drawable); }
  } catch (const Error& error) {
    report.warnings.push_back(
        std::string("the report's charts need scripts in the browser, their still pictures "
                    "could not be drawn (apt-get install nodejs, then run this again): ") +
        error.what());
  }
  report.html = page_html(page_model(data, charts), drawable, pictures);
  return report;
}

}  // namespace virtrain::results
