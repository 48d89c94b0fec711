#include "results/report/site/site.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "common/version.h"
#include "results/changes/change_groups.h"
#include "results/changes/changes.h"
#include "results/exchange/exchange.h"
#include "results/reading/reading.h"
#include "results/report/charts/chart.h"
#include "results/report/figures/figures.h"
#include "results/report/page/html.h"
#include "results/report/page/page.h"
#include "results/report/report.h"

namespace virtrain::results {
namespace {

/// Values of the first page.
struct SiteData {
  SiteRequest request;
  std::string database;
  std::vector<const Night*> nights;                         ///< of the scenario, in the order of storing
  std::vector<SeriesState> series;                          ///< losses first
  std::vector<ChangeGroup> groups;                          ///< as change_groups() orders them
  std::function<std::string(const Night&)> link = nullptr;  ///< of the night's page; empty: it has none
};

using nlohmann::json;

/// Class of page/report.css and the words of a verdict.
struct VerdictWords {
  const char* style;
  const char* glyph;
  const char* word;
};

VerdictWords words_of(SeriesVerdict verdict) {
  switch (verdict) {
    case SeriesVerdict::loss:
      return {"worse", "▼", "open loss"};
    case SeriesVerdict::gain:
      return {"better", "▲", "open gain"};
    case SeriesVerdict::unconfirmed:
      return {"inconclusive", "?", "unconfirmed"};
    case SeriesVerdict::level:
      break;
  }
  return {"equivalent", "=", "level"};
}

json link_model(const SiteData& data, const Night& night) {
  const auto link = data.link(night);
  return {{"id", night.experiment}, {"has_link", !link.empty()}, {"link", link}};
}

/// Whether the group is of today: a loss, a gain, or odd nights that may become one.
bool is_open(const ChangeGroup& group) {
  const auto state = group.largest().state;
  return state == ChangeState::open || state == ChangeState::unconfirmed;
}

std::string group_id(const ChangeGroup& group) {
  return "change-" + group.largest().id;
}

/// "label (mpi-1 → mpi-2), host.kernel (…)"
std::string suspects_words(const ChangeGroup& group) {
  std::vector<std::string> words;
  for (const auto* one : group.suspects()) {
    words.push_back(fmt::format("{} ({} → {})", one->fact, one->before, one->after));
  }
  return join(words, ", ");
}

/// A line through the last nights, as an SVG element; each change is where it is dashed.
std::string sparkline(const SeriesState& state) {
  constexpr std::size_t most_nights = 90;
  constexpr double width = 132, height = 30, edge = 3;
  const auto& values = state.series->values;
  const std::size_t begin = values.size() - std::min(values.size(), most_nights);
  const auto [low, high] =
      std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(begin), values.end());
  const double span = *high > *low ? *high - *low : 1;
  const double step =
      (width - 2 * edge) / static_cast<double>(std::max<std::size_t>(1, values.size() - begin - 1));
  const auto x = [&](std::size_t night) { return edge + step * static_cast<double>(night - begin); };
  std::string points;
  for (std::size_t i = begin; i < values.size(); ++i) {
    points +=
        fmt::format("{:.1f},{:.1f} ", x(i), height - edge - (values[i] - *low) / span * (height - 2 * edge));
  }
  std::string changes;
  for (const Change* change : state.changes) {
    if (change->level.first <= begin) { continue; }
    const double at = x(change->level.first) - step / 2;
    changes += fmt::format(R"(<path d="M{:.1f},0V{}"/>)", at, height);
  }
  return fmt::format(
      R"(<svg class="sparkline" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true">{}<polyline points="{}"/></svg>)",
      width, height, width, height, changes, points);
}

/// One line of a table of series: `change` is the one that is open, if any is.
json series_row(const SeriesState& state, const std::string& figure, const Change* change) {
  const auto words = words_of(change == nullptr ? SeriesVerdict::level : state.verdict);
  const auto unit = state.series->unit.empty() ? "" : " " + state.series->unit;
  std::string size;
  if (change != nullptr) {
    const auto& level = change->level;
    size = change_percent(level.ratio);
    if (level.ci && level.confirmed_on) {
      size += fmt::format(" ({} to {})", change_percent(level.ci->low), change_percent(level.ci->high));
    }
  }
  return {{"name", state.series->name()},
          {"figure", figure},
          {"verdict_class", words.style},
          {"sparkline", sparkline(state)},
          {"change", size},
          {"id", change == nullptr ? "" : change->id},
          {"level", figure_words(state.level) + unit},
          {"last", figure_words(state.series->values.back())},
          {"nights", std::to_string(state.series->nights.size())}};
}

/// The command that takes a group for the new normal; empty where nobody can yet.
std::string acknowledge_command(const SiteData& data, const ChangeGroup& group) {
  if (group.largest().state != ChangeState::open) { return ""; }
  std::vector<std::string> ids;
  for (const auto* change : group.changes) { ids.push_back(change->id); }
  const auto& option = data.request.database_option;
  if (ids.size() == 1) { return fmt::format("virtrain ack {} \"why\"{}", ids.front(), option); }
  return fmt::format("for change in {}; do virtrain ack $change \"why\"{}; done", join(ids, " "), option);
}

json group_model(const SiteData& data, const ChangeGroup& group, const std::vector<Chart>& charts) {
  const bool alarm = is_alarm(group.largest());
  const auto words = words_of(group.largest().state == ChangeState::unconfirmed ? SeriesVerdict::unconfirmed
                              : alarm                                           ? SeriesVerdict::loss
                                                                                : SeriesVerdict::gain);
  json rows = json::array();
  for (const auto* change : group.changes) {
    for (std::size_t i = 0; i < data.series.size(); ++i) {
      if (data.series[i].series == change->series) {
        rows.push_back(series_row(data.series[i], charts[i].id, change));
      }
    }
  }
  const auto suspects = suspects_words(group);
  const auto command = acknowledge_command(data, group);
  const auto confirmed = group.largest().level.confirmed_on.has_value();
  return {{"group", group_id(group)},
          {"sentence", group_sentence(group)},
          {"verdict_class", words.style},
          {"glyph", words.glyph},
          {"word", capitalised(words.word)},
          {"first", link_model(data, group.first_night())},
          {"suspects", suspects.empty() ? "no stored property fits" : suspects},
          {"has_suspects", confirmed},
          {"caption", "Series of this change"},
          {"with_change", true},
          {"rows", rows},
          {"has_command", !command.empty()},
          {"command", command}};
}

/// A change that nobody has to look at any more.
json past_model(const SiteData& data, const ChangeGroup& group) {
  std::vector<std::string> names;
  for (const auto* change : group.changes) { names.push_back(change->series->name()); }
  return {{"group", group_id(group)},
          {"sentence", group_sentence(group) + ", " + to_string(group.largest().state)},
          {"names", join(names, ", ")},
          {"first", link_model(data, group.first_night())},
          {"why", group.largest().why},
          {"has_why", !group.largest().why.empty()}};
}

/// Groups that are open, groups that are over, and series at their level: each series in one place.
void add_changes(const SiteData& data, const std::vector<Chart>& charts, json& model) {
  model["groups"] = model["past"] = json::array();
  json level = json::array();
  std::set<const Series*> shown;
  for (const auto& group : data.groups) {
    if (!is_open(group)) {
      model["past"].push_back(past_model(data, group));
      continue;
    }
    model["groups"].push_back(group_model(data, group, charts));
    for (const auto* change : group.changes) { shown.insert(change->series); }
  }
  for (std::size_t i = 0; i < data.series.size(); ++i) {
    if (!shown.contains(data.series[i].series)) {
      level.push_back(series_row(data.series[i], charts[i].id, nullptr));
    }
  }
  model["has_past"] = !model["past"].empty();
  model["has_level"] = !level.empty();
  model["at_level"] = {{"caption", "Series at their level"}, {"with_change", false}, {"rows", level}};
}

/// The nights, the newest first, with the changes that began on each.
json nights_model(const SiteData& data) {
  std::map<std::int64_t, json> began;
  for (const auto& group : data.groups) {
    auto& links = began[group.first_night().number];
    if (links.is_null()) { links = json::array(); }
    links.push_back({{"group", group_id(group)}, {"sentence", group_sentence(group)}});
  }
  json rows = json::array();
  for (auto night = data.nights.rbegin(); night != data.nights.rend(); ++night) {
    const auto found = began.find((*night)->number);
    rows.push_back({{"started", (*night)->started_at},
                    {"experiment", link_model(data, **night)},
                    {"label", (*night)->label},
                    {"host", (*night)->host_name},
                    {"began", found == began.end() ? json::array() : found->second}});
  }
  return rows;
}

std::string headline_of(const SiteData& data) {
  const auto losses = losses_headline(data.groups);
  return losses.empty() ? fmt::format("No loss is open in {} series", data.series.size()) : losses;
}

/// A figure for each series, in their order.
std::vector<Chart> site_charts(const SiteData& data) {
  std::vector<Chart> charts;
  for (const auto& state : data.series) {
    charts.push_back(nights_chart(state, fmt::format("series-{}", charts.size() + 1)));
  }
  return charts;
}

/// Values for templates/site.html, as plain texts. Pure.
json site_model(const SiteData& data, const std::vector<Chart>& charts) {
  json figures = json::array();
  for (const auto& chart : charts) { figures.push_back(chart_model(chart)); }
  json sections = json::array();
  sections.push_back({{"id", "over-time"}, {"title", "Over time"}, {"figures", figures}});
  json model{{"title", data.request.schedule + ": " + headline_of(data)},
             {"schedule", data.request.schedule},
             {"scenario", data.request.scenario},
             {"headline", headline_of(data)},
             {"all_series", std::to_string(data.series.size())},
             {"sections", sections},
             {"nights", nights_model(data)},
             {"count", std::to_string(data.nights.size())},
             {"last", day_words(*data.nights.back())},
             {"database", data.database},
             {"report_command", data.request.command_line},
             {"version", virtrain_version}};
  add_changes(data, charts, model);
  return model;
}

}  // namespace

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
