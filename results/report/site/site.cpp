#include "results/report/site/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/version.h"
#include "results/changes/series_state.h"
#include "results/exchange/exchange.h"
#include "results/report/page/html.h"
#include "results/report/report.h"
#include "results/report/site/site_model.h"

namespace virtrain::results {
namespace fs = std::filesystem;
namespace {

bool is_plain_name(const std::string& id) {
  constexpr std::size_t most_bytes = 100;
  return !id.empty() && id.size() <= most_bytes && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

/// The last line of a page: what it was made of. It is looked at before a page is made again.
std::string mark_of(const Store& store, const std::string& experiment, const Settings& settings) {
  std::ostringstream records;
  records << settings.margin << ' ' << settings.alpha << '\n';
  export_jsonl(store, {.experiments = {experiment}}, records);
  return fmt::format("<!-- virtrain {} {} -->\n", virtrain_version, sha256(records.str()));
}

bool is_regular(const fs::path& file) {
  std::error_code unknown;
  return fs::is_regular_file(fs::symlink_status(file, unknown));
}

bool ends_with_mark(const fs::path& file, const std::string& mark) {
  return is_regular(file) && read_tail(file, mark.size()) == mark;
}

void write_night(const Store& store, const SiteRequest& request, const std::string& experiment,
                 const fs::path& file, SiteReport& report) {
  const auto mark = mark_of(store, experiment, request.settings);
  if (ends_with_mark(file, mark)) {
    ++report.kept;
    return;
  }
  ReportRequest one;
  one.compare.selection.experiments = {experiment};
  one.compare.settings = request.settings;
  one.compare.explain = true;
  one.command_line = request.command_line;
  const auto page = make_report(store, one);
  report.warnings.insert(report.warnings.end(), page.warnings.begin(), page.warnings.end());
  write_file_atomically(file, page.html + mark);
  ++report.written;
}

/// Losses first, then what is odd; the others as they began.
void sort_by_news(std::vector<SeriesState>& series) {
  const auto rank = [](const SeriesState& state) {
    switch (state.verdict) {
      case SeriesVerdict::loss:
        return 0;
      case SeriesVerdict::unconfirmed:
        return 1;
      case SeriesVerdict::gain:
        return 2;
      case SeriesVerdict::level:
        break;
    }
    return 3;
  };
  std::ranges::stable_sort(series,
                           [&](const SeriesState& a, const SeriesState& b) { return rank(a) < rank(b); });
}

std::string index_html(const SiteData& data, SiteReport& report) {
  const auto charts = site_charts(data);
  const auto drawable = charts_json(charts);
  Pictures pictures;
  try {
    if (!charts.empty()) { pictures = draw_charts(drawable); }
  } catch (const Error& error) {
    report.warnings.push_back(
        std::string("the charts of index.html need scripts in the browser: their still pictures could not be "
                    "drawn (apt-get install nodejs, then run this again): ") +
        error.what());
  }
  return site_html(site_model(data, charts), drawable, pictures);
}

}  // namespace

std::string page_name(const std::string& experiment) {
  return is_plain_name(experiment) ? "night-" + experiment + ".html"
                                   : "night." + sha256(experiment) + ".html";
}

SiteReport write_site(const Store& store, const SiteRequest& request, const fs::path& folder) {
  const auto log = read_changes_of(store, request.scenario);
  SiteData data;
  data.request = request;
  data.database = store.file().string();
  for (const auto& night : log.nights) {
    if (night.scenario == request.scenario) { data.nights.push_back(&night); }
  }
  if (data.nights.empty()) {
    throw Error("report on schedule " + request.schedule, ErrorCode::not_found,
                fmt::format("{} has no night of scenario {} yet", data.database, excerpt(request.scenario)));
  }
  data.series = series_states(log);
  sort_by_news(data.series);
  SiteReport report;
  const std::size_t pages = std::min(request.nights, data.nights.size());
  const auto trials = store.list_experiments();
  for (auto night = data.nights.end() - static_cast<std::ptrdiff_t>(pages); night != data.nights.end();
       ++night) {
    const auto& id = (*night)->experiment;
    const bool has_trials = std::ranges::any_of(
        trials, [&](const ExperimentSummary& one) { return one.experiment.id == id && one.trials > 0; });
    if (has_trials) { write_night(store, request, id, folder / page_name(id), report); }
  }
  data.link = [&](const Night& night) {
    const auto name = page_name(night.experiment);
    return is_regular(folder / name) ? name : "";
  };
  write_file_atomically(folder / "index.html", index_html(data, report));
  return report;
}

}  // namespace virtrain::results
