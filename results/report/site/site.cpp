#include "results/report/site/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <future>
#include <set>
#include <sstream>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/version.h"
#include "results/changes/series_state.h"
#include "results/exchange/exchange.h"
#include "results/reading/read_changes.h"
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
std::string mark_of(const Store& store, const Night& night, const Settings& settings) {
  const auto stored = store.stored_readings(night.number);
  std::ostringstream records;
  records << settings.margin << ' ' << settings.alpha << ' ' << stored.samples << ' ' << stored.last_sample
          << ' ' << stored.readings << ' ' << stored.last_reading << '\n';
  export_records(store, night.experiment, records);
  return fmt::format("<!-- virtrain {} {} -->\n", virtrain_version, sha256(records.str()));
}

bool is_regular(const fs::path& file) {
  std::error_code unknown;
  return fs::is_regular_file(fs::symlink_status(file, unknown));
}

bool ends_with_mark(const fs::path& file, const std::string& mark) {
  return is_regular(file) && read_tail(file, mark.size()) == mark;
}

/// Pages that are drawn together, while the next ones are read.
struct Batch {
  std::vector<fs::path> files;
  std::vector<std::string> marks;
  std::vector<nlohmann::json> pages, charts;
  std::future<DrawnPages> drawn;
};

void write_batch(Batch& batch, SiteReport& report) {
  const auto drawn = batch.drawn.get();
  if (!drawn.warning.empty()) { report.warnings.push_back(drawn.warning); }
  for (std::size_t i = 0; i < batch.files.size(); ++i) {
    const auto html = page_html(batch.pages[i], batch.charts[i], drawn.pages[i]);
    write_file_atomically(batch.files[i], html + batch.marks[i]);
    ++report.written;
  }
}

/// Reads the next page, if its data changed.
void read_night(const Store& store, const SiteRequest& request, const Night& night, const fs::path& file,
                Batch& batch, SiteReport& report) {
  auto mark = mark_of(store, night, request.settings);
  if (ends_with_mark(file, mark)) {
    ++report.kept;
    return;
  }
  ReportRequest one;
  one.compare.selection.experiments = {night.experiment};
  one.compare.settings = request.settings;
  one.compare.explain = true;
  one.command_line = request.command_line;
  auto read = read_report(store, one);
  batch.files.push_back(file);
  batch.marks.push_back(std::move(mark));
  batch.pages.push_back(std::move(read.page));
  batch.charts.push_back(std::move(read.charts));
}

/// Writes the pages of these nights whose data changed. While some are drawn, the next ones are read.
void write_nights(const Store& store, const SiteRequest& request, const std::vector<const Night*>& nights,
                  const fs::path& folder, SiteReport& report) {
  constexpr std::size_t pages_of_batch = 20;  // of some MB each: half of node's time for ten is its start
  constexpr std::size_t most_drawn = 2;       // batches at once
  std::deque<Batch> drawn;
  const auto write_first = [&] {
    write_batch(drawn.front(), report);
    drawn.pop_front();
  };
  for (auto night = nights.begin(); night != nights.end();) {
    Batch batch;
    for (; night != nights.end() && batch.files.size() < pages_of_batch; ++night) {
      read_night(store, request, **night, folder / page_name((*night)->experiment), batch, report);
    }
    if (batch.files.empty()) { break; }
    if (drawn.size() == most_drawn) { write_first(); }
    batch.drawn = std::async(std::launch::async, draw_pages, batch.charts, "the runs");
    drawn.push_back(std::move(batch));
  }
  while (!drawn.empty()) { write_first(); }
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
  const auto drawn = draw_pages({drawable}, "index.html");
  if (!drawn.warning.empty()) { report.warnings.push_back(drawn.warning); }
  return site_html(site_model(data, charts), drawable, drawn.pages.front());
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
                fmt::format("{} has no run of scenario {} yet", data.database, excerpt(request.scenario)));
  }
  data.series = series_states(log);
  data.groups = change_groups(log.changes);
  sort_by_news(data.series);
  SiteReport report;
  std::set<std::string> with_trials;
  for (const auto& one : store.list_experiments()) {
    if (one.trials > 0) { with_trials.insert(one.experiment.id); }
  }
  const auto pages = static_cast<std::ptrdiff_t>(std::min(request.nights, data.nights.size()));
  std::vector<const Night*> shown(data.nights.end() - pages, data.nights.end());
  std::erase_if(shown, [&](const Night* night) { return !with_trials.contains(night->experiment); });
  write_nights(store, request, shown, folder, report);
  data.link = [&](const Night& night) {
    const auto name = page_name(night.experiment);
    return is_regular(folder / name) ? name : "";
  };
  write_file_atomically(folder / "index.html", index_html(data, report));
  return report;
}

}  // namespace virtrain::results
