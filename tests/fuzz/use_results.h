#pragma once

#include <cstdlib>
#include <sstream>

#include "common/error.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/reading.h"
#include "results/report/data/report_data.h"
#include "results/report/page/html.h"
#include "results/report/page/page.h"
#include "results/tables/render.h"
#include "results/tables/tables.h"

namespace virtrain::results {

inline void check(bool holds) {
  if (!holds) { std::abort(); }
}

/// What is not there, cannot be compared or is damaged is an Error; nothing else may come of it.
template <typename Work>
void run(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    check(error.code() == ErrorCode::bad_input || error.code() == ErrorCode::not_found ||
          error.code() == ErrorCode::usage || error.code() == ErrorCode::io);
  }
}

/// All that is made of a database: tables, verdicts, the report, exports.
inline void use(const Store& store) {
  CompareRequest request;
  request.selection.all = true;
  request.explain = true;
  request.predict = {8};
  run([&] {
    const auto comparisons = compare(store, request);
    for (const auto format : {Format::table, Format::json, Format::csv, Format::markdown}) {
      render(comparisons, format);
    }
  });
  request.predict.clear();
  run([&] {
    const auto page = read_report_data(store, {request, "virtrain report"});
    const auto charts = charts_of(page);
    page_html(page_model(page, charts), charts_json(charts), {});
  });
  const auto all = experiments_to_export(store, {.all = true});
  for (const auto& write : {export_superbench, export_mlperf, export_prometheus}) {
    run([&] {
      std::ostringstream out;
      write(store, all, out);
    });
  }
}

}  // namespace virtrain::results
