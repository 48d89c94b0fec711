#include <fmt/format.h>

#include <algorithm>

#include "common/text/units.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

constexpr double half = 0.5;

/// The first night that is back at the old level, or the one behind the last.
std::size_t end_of(const Change& change) {
  return change.level.back_since.value_or(change.series->values.size());
}

/// Class of the band behind the nights of a change.
std::string band_of(const Change& change) {
  if (change.state == ChangeState::open) { return change.regression ? "loss" : "gain"; }
  return to_string(change.state);
}

void add_level(json& levels, std::size_t begin, std::size_t end, double level, double shift) {
  if (begin >= end) { return; }
  levels.push_back({{"from", static_cast<double>(begin) - half},
                    {"to", static_cast<double>(end) - half},
                    {"level", rounded(level)},
                    {"low", rounded(level * (1 - shift))},
                    {"high", rounded(level * (1 + shift))}});
}

json levels_of(const SeriesState& state) {
  json levels = json::array();
  const double told = state.noise.least_loss_15_nights.value_or(ChangeRule{}.least_shift);
  std::size_t begin = 0;
  for (const Change* change : state.changes) {
    add_level(levels, begin, change->level.first, change->level.before, told);
    begin = change->level.first;
    if (change->level.mended_on) {
      add_level(levels, begin, end_of(*change), change->level.after, told);
      begin = end_of(*change);
    }
  }
  add_level(levels, begin, state.series->values.size(), state.level, told);
  return levels;
}

void add_changes(const SeriesState& state, Chart& chart) {
  constexpr std::size_t rows = 4;  // of words, so that neighbours do not cover each other
  std::size_t position = 0;
  for (const Change* change : state.changes) {
    const auto first = static_cast<double>(change->level.first) - half;
    chart.data["bands"].push_back(
        {{"from", first}, {"to", static_cast<double>(end_of(*change)) - half}, {"state", band_of(*change)}});
    chart.data["changes"].push_back({{"i", first},
                                     {"position", position++ % rows},
                                     {"words", change_percent(change->level.ratio)},
                                     {"tip", change_sentence(*change)}});
  }
}

/// "10-25", for the axis.
std::string short_day(const Night& night) {
  constexpr std::size_t year = 5, day = 5;
  return night.started_at.size() < year + day ? day_words(night) : night.started_at.substr(year, day);
}

void add_nights(const Series& series, Chart& chart) {
  json dates = json::array(), days = json::array();
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    chart.data["points"].push_back({{"i", i}, {"v", rounded(series.values[i])}});
    dates.push_back(day_words(*series.nights[i]));
    days.push_back(short_day(*series.nights[i]));
  }
  chart.signals["dates"] = dates;
  chart.signals["days"] = days;
  chart.signals["axis_title"] =
      fmt::format("runs from {} to {}", day_words(*series.nights.front()), day_words(*series.nights.back()));
  const std::size_t listed = std::min(listed_nights, series.values.size());
  for (std::size_t i = series.values.size() - listed; i < series.values.size(); ++i) {
    chart.table.rows.push_back({cell(day_words(*series.nights[i])), cell(figure_words(series.values[i])),
                                cell(series.nights[i]->experiment)});
  }
  if (listed < series.values.size()) {
    chart.table.notes.push_back(
        fmt::format("The last {} of {} runs are listed.", listed, series.values.size()));
  }
}

std::string summary_of(const SeriesState& state) {
  std::vector<std::string> changes;
  for (const Change* change : state.changes) { changes.push_back(change_sentence(*change)); }
  return fmt::format(
      "{}. {}.", counted(state.series->nights.size(), "run"),
      changes.empty() ? "No lasting change was found" : fmt::format("{}", fmt::join(changes, "; ")));
}

}  // namespace

Chart nights_chart(const SeriesState& state, const std::string& id) {
  const auto& series = *state.series;
  Chart chart;
  chart.id = id;
  chart.spec = "nights";
  chart.title = series.name();
  chart.summary = summary_of(state);
  chart.zoom = true;
  for (const char* set : {"points", "levels", "bands", "changes"}) { chart.data[set] = json::array(); }
  chart.table.columns = {{"night", "Run"}, {"value", "Value", true}, {"experiment", "Experiment"}};
  chart.data["levels"] = levels_of(state);
  add_changes(state, chart);
  add_nights(series, chart);
  const auto [low, high] = std::minmax_element(series.values.begin(), series.values.end());
  const double room = std::max((*high - *low) * 0.12, *high * 0.03);
  chart.signals["values"] = {*low - room, *high + room};
  chart.signals["heading"] = series.unit.empty() ? series.figure : series.figure + ", " + series.unit;
  chart.key = {{"arm-1", "runs and their level"},
               {"band", "changes within it are too small to detect in the noise of these runs"},
               {"ideal",
                "first run of a change; behind its runs red: open loss, green: open gain, "
                "yellow: unconfirmed, grey: recovered or acknowledged"}};
  return chart;
}

}  // namespace virtrain::results
