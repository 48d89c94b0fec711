#include "results/report/site/site_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/text/text.h"
#include "common/text/units.h"
#include "common/version.h"
#include "results/report/figures/nights_chart.h"
#include "results/report/page/page.h"

namespace virtrain::results {
namespace {

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

json change_model(const SiteData& data, const Change& change) {
  std::vector<std::string> suspects;
  for (const auto& one : change.suspects) {
    suspects.push_back(
        fmt::format("{} ({} → {}){}", one.fact, one.before, one.after, one.fits ? "" : ", on another night"));
  }
  return {{"change", change.id},
          {"sentence", change_sentence(change)},
          {"first", link_model(data, change.first_night())},
          {"suspects", join(suspects, ", ")},
          {"has_suspects", !suspects.empty()},
          {"why", change.why},
          {"has_why", !change.why.empty()}};
}

json series_model(const SiteData& data, const SeriesState& state, const std::string& figure) {
  const auto words = words_of(state.verdict);
  json changes = json::array();
  for (auto one = state.changes.rbegin(); one != state.changes.rend(); ++one) {
    changes.push_back(change_model(data, **one));
  }
  return {
      {"name", state.series->name()},
      {"figure", figure},
      {"verdict_class", words.style},
      {"glyph", words.glyph},
      {"word", words.word},
      {"sentence", fmt::format("Last night {}{}{}, level {}, {}", figure_words(state.series->values.back()),
                               state.series->unit.empty() ? "" : " ", state.series->unit,
                               figure_words(state.level), counted(state.series->nights.size(), "night"))},
      {"changes", changes}};
}

/// The nights, the newest first, with the changes that began on each.
json nights_model(const SiteData& data) {
  std::map<const Night*, std::vector<std::string>> began;
  for (const auto& state : data.series) {
    for (const Change* change : state.changes) {
      began[&change->first_night()].push_back(state.series->name() + " " +
                                              change_percent(change->level.ratio));
    }
  }
  json rows = json::array();
  for (auto night = data.nights.rbegin(); night != data.nights.rend(); ++night) {
    const auto found = began.find(*night);
    rows.push_back(
        {{"started", (*night)->started_at},
         {"experiment", link_model(data, **night)},
         {"label", (*night)->label},
         {"host", (*night)->host_name},
         {"began", found == began.end() ? "" : fmt::format("{}", fmt::join(found->second, "; "))}});
  }
  return rows;
}

std::string headline_of(const SiteData& data) {
  std::size_t losses = 0;
  for (const auto& state : data.series) { losses += state.open_losses.size(); }
  if (losses == 0) { return fmt::format("No loss is open in {} series", data.series.size()); }
  return fmt::format("{} open in {} series",
                     losses == 1 ? "One loss is" : fmt::format("{} losses are", losses), data.series.size());
}

}  // namespace

std::vector<Chart> site_charts(const SiteData& data) {
  std::vector<Chart> charts;
  for (const auto& state : data.series) {
    charts.push_back(nights_chart(state, fmt::format("series-{}", charts.size() + 1)));
  }
  return charts;
}

json site_model(const SiteData& data, const std::vector<Chart>& charts) {
  json figures = json::array();
  for (const auto& chart : charts) { figures.push_back(chart_model(chart)); }
  json series = json::array();
  for (std::size_t i = 0; i < data.series.size(); ++i) {
    series.push_back(series_model(data, data.series[i], charts[i].id));
  }
  json sections = json::array();
  sections.push_back({{"id", "over-time"}, {"title", "Over time"}, {"figures", figures}});
  return {{"title", data.request.schedule + ": " + headline_of(data)},
          {"schedule", data.request.schedule},
          {"scenario", data.request.scenario},
          {"headline", headline_of(data)},
          {"series", series},
          {"sections", sections},
          {"nights", nights_model(data)},
          {"count", std::to_string(data.nights.size())},
          {"last", day_words(*data.nights.back())},
          {"database", data.database},
          {"report_command", data.request.command_line},
          {"version", virtrain_version}};
}

}  // namespace virtrain::results
