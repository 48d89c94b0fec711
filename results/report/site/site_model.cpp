#include "results/report/site/site_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

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

}  // namespace virtrain::results
