#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/text/units.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

/// Mean throughput of one arm of a case in one experiment.
struct DatedMean {
  const Experiment* experiment;
  double value;
};

struct ShownChange {
  std::size_t index;  ///< its first night among those of the line
  const Change* change;
};

struct SeriesLine {
  std::string arm;
  std::vector<DatedMean> nights;  ///< by date
  std::vector<ShownChange> changes;
};

using LinesOfCases = std::map<std::string, std::vector<SeriesLine>>;

/// Changes of the line's throughput whose first night it has, as `virtrain changes` lists them.
std::vector<ShownChange> shown_changes(const ReportData& data, const CaseComparison& of,
                                       const SeriesLine& line) {
  const auto is_throughput = [&](const Series& series) {
    return series.unit == of.throughput_unit && series.kind == "throughput";
  };
  std::vector<ShownChange> shown;
  for (const auto& log : data.changes) {
    for (const auto& change : log->changes) {
      const auto& series = *change.series;
      if (series.case_name != of.case_name || series.arm != line.arm || !is_throughput(series)) { continue; }
      const auto first = std::ranges::find_if(line.nights, [&](const DatedMean& night) {
        return night.experiment->id == change.first_night().experiment;
      });
      if (first != line.nights.end()) {
        shown.push_back({static_cast<std::size_t>(first - line.nights.begin()), &change});
      }
    }
  }
  std::ranges::sort(shown, {}, &ShownChange::index);
  return shown;
}

std::vector<SeriesLine> lines_of(const ReportData& data, const CaseComparison& of,
                                 const std::vector<const ReportTrial*>& trials) {
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
  for (const auto* one : trials) {
    values[one->trial.arm][one->trial.experiment].push_back(one->trial.throughput->value);
  }
  std::vector<SeriesLine> lines;
  for (const auto& [arm, by_experiment] : values) {
    SeriesLine line{arm, {}, {}};
    for (const auto& experiment : data.experiments) {
      const auto found = by_experiment.find(experiment.id);
      if (found != by_experiment.end() && !experiment.started_at.empty()) {
        line.nights.push_back({&experiment, mean(found->second)});
      }
    }
    std::ranges::stable_sort(line.nights, [](const DatedMean& a, const DatedMean& b) {
      return a.experiment->started_at < b.experiment->started_at;
    });
    if (line.nights.size() < least_nights) { continue; }
    line.changes = shown_changes(data, of, line);
    lines.push_back(std::move(line));
  }
  return lines;
}

/// "VM: -8.2 % (-8.4 % to -8.0 %), worse, since 2026-10-21, open"
std::string change_words(const SeriesLine& line, const ShownChange& shown) {
  return arm_words(line.arm) + ": " + change_sentence(*shown.change);
}

std::string summary_of(const std::vector<SeriesLine>& lines) {
  std::vector<std::string> changes;
  std::size_t nights = 0;
  for (const auto& line : lines) {
    nights = std::max(nights, line.nights.size());
    for (const auto& change : line.changes) { changes.push_back(change_words(line, change)); }
  }
  return fmt::format(
      "{}. {}.", counted(nights, "experiment"),
      changes.empty() ? "No lasting change was found" : fmt::format("{}", fmt::join(changes, "; ")));
}

void add_levels(const SeriesLine& line, const std::string& style, nlohmann::json& levels) {
  std::vector<std::size_t> starts{0};
  for (const auto& change : line.changes) { starts.push_back(change.index); }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : line.nights.size();
    std::vector<double> values;
    for (std::size_t k = starts[i]; k < end; ++k) { values.push_back(line.nights[k].value); }
    levels.push_back({{"style", style},
                      {"from", line.nights[starts[i]].experiment->started_at},
                      {"to", line.nights[end - 1].experiment->started_at},
                      {"level", rounded(mean(values))}});
  }
}

void add_line(const SeriesLine& line, const std::string& unit, const ArmOrder& order, Chart& chart) {
  const auto key = arm_key(order, line.arm);
  const auto position = chart.key.size();
  chart.key.push_back(key);
  for (const auto& night : line.nights) {
    chart.data["points"].push_back(
        {{"style", key.mark},
         {"arm", key.words},
         {"at", night.experiment->started_at},
         {"value", night.value},
         {"tip", fmt::format("{}\n{}, {:.1f} {}\n{}", night.experiment->started_at, key.words, night.value,
                             unit, night.experiment->id)}});
    chart.table.rows.push_back({cell(night.experiment->started_at), cell(key.words),
                                cell(std::optional(night.value), 1), cell(night.experiment->id)});
  }
  for (const auto& change : line.changes) {
    chart.data["changes"].push_back({{"style", key.mark},
                                     {"at", line.nights[change.index].experiment->started_at},
                                     {"position", position},
                                     {"words", key.words + " " + change_percent(change.change->level.ratio)},
                                     {"tip", change_words(line, change)}});
  }
  add_levels(line, key.mark, chart.data["levels"]);
}

Chart chart_of(const CaseComparison& of, const std::vector<SeriesLine>& lines, const ArmOrder& order,
               std::size_t number) {
  const auto& unit = of.throughput_unit;
  Chart chart;
  chart.id = fmt::format("series-{}", number);
  chart.spec = "series";
  chart.title = of.case_name + in_unit(unit) + ": throughput from experiment to experiment";
  chart.summary = summary_of(lines);
  for (const char* set : {"points", "changes", "levels"}) { chart.data[set] = nlohmann::json::array(); }
  chart.table.columns = {
      {"started_at", "Started"}, {"arm", "Arm"}, throughput_column(unit), {"experiment", "Experiment"}};
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const auto& line : lines) {
    add_line(line, unit, order, chart);
    for (const auto& night : line.nights) {
      low = std::min(low, night.value);
      high = std::max(high, night.value);
    }
  }
  set_value_axis(chart, low, high, unit);
  chart.zoom = true;
  return chart;
}

}  // namespace

std::vector<Chart> series_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<Chart> charts;
  if (data.experiments.size() < least_nights) { return charts; }
  auto trials = usable_trials(data.trials);
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    if (charts.size() == most_series_charts) { break; }
    const auto lines = lines_of(data, comparison, trials[{comparison.case_name, comparison.throughput_unit}]);
    if (!lines.empty()) { charts.push_back(chart_of(comparison, lines, order, charts.size() + 1)); }
  }
  return charts;
}

}  // namespace virtrain::results
