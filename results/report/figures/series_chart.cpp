#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/text/units.h"
#include "results/changes/scenario_version.h"
#include "results/report/figures/figures.h"
#include "results/statistics/change_points.h"

namespace virtrain::results {
namespace {

// Fewer experiments are no series.
constexpr std::size_t least_experiments = 5;
// On either side of a change: fewer do not show that it lasts.
constexpr std::size_t least_beside_change = 3;

/// Mean throughput of one arm of a case in one experiment.
struct DatedMean {
  const Experiment* experiment;
  double images_per_second;
};

struct SeriesLine {
  std::string arm;
  std::vector<DatedMean> nights;  ///< by date
  std::vector<ChangePoint> changes;
};

using LinesOfCases = std::map<std::string, std::vector<SeriesLine>>;

/// Among the latest experiments of one scenario: what another workload reaches is no change.
std::vector<ChangePoint> lasting_changes(const std::vector<DatedMean>& nights) {
  const auto version = [](const DatedMean& night) {
    return scenario_version(night.experiment->scenario_text);
  };
  const auto newest = version(nights.back());
  const auto other = std::find_if(nights.rbegin(), nights.rend(),
                                  [&](const auto& night) { return version(night) != newest; });
  const auto begin = static_cast<std::size_t>(nights.rend() - other);
  std::vector<std::optional<double>> series;
  for (std::size_t i = begin; i < nights.size(); ++i) { series.emplace_back(nights[i].images_per_second); }
  auto changes = change_points(series);
  std::erase_if(changes, [&](const ChangePoint& change) {
    return change.index < least_beside_change || series.size() - change.index < least_beside_change;
  });
  for (auto& change : changes) { change.index += begin; }
  return changes;
}

std::vector<SeriesLine> lines_of(const ReportData& data, const std::vector<const ReportTrial*>& trials) {
  std::map<std::string, std::map<std::string, std::vector<double>>> values;
  for (const auto* one : trials) {
    values[one->trial.arm][one->trial.experiment].push_back(*one->trial.images_per_second);
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
    if (line.nights.size() < least_experiments) { continue; }
    line.changes = lasting_changes(line.nights);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string day_of(const std::string& time) {
  return time.substr(0, 10);
}

/// "VM: 8.0 % lower from 2026-10-21 on"
std::string change_words(const SeriesLine& line, const ChangePoint& change) {
  return fmt::format("{}: {:.1f} % {} from {} on", arm_words(line.arm),
                     100 * std::abs(change.relative_change), change.regression() ? "lower" : "higher",
                     day_of(line.nights[change.index].experiment->started_at));
}

/// The newest value against its history: an alarm before a change can be shown to last.
std::string fence_words(const SeriesLine& line) {
  std::vector<double> history;
  for (const auto& night : line.nights) { history.push_back(night.images_per_second); }
  const double newest = history.back();
  history.pop_back();
  const auto fence = check_fence(history, newest);
  const bool alarm =
      fence.verdict == FenceResult::Verdict::regression || fence.verdict == FenceResult::Verdict::improvement;
  if (!alarm) { return ""; }
  return fmt::format(" The newest value of {} is {:.1f} % {} the one before: outside the fence of {:.1f} %.",
                     arm_words(line.arm), 100 * std::abs(fence.relative_change),
                     fence.relative_change < 0 ? "below" : "above", 100 * fence.threshold);
}

std::string summary_of(const std::vector<SeriesLine>& lines) {
  std::vector<std::string> changes;
  std::string fences;
  std::size_t nights = 0;
  for (const auto& line : lines) {
    nights = std::max(nights, line.nights.size());
    for (const auto& change : line.changes) { changes.push_back(change_words(line, change)); }
    fences += fence_words(line);
  }
  return fmt::format(
      "{}. {}.{}", counted(nights, "experiment"),
      changes.empty() ? "No lasting change was found" : fmt::format("{}", fmt::join(changes, "; ")), fences);
}

void add_levels(const SeriesLine& line, const std::string& style, nlohmann::json& levels) {
  std::vector<std::size_t> starts{0};
  for (const auto& change : line.changes) { starts.push_back(change.index); }
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : line.nights.size();
    std::vector<double> values;
    for (std::size_t k = starts[i]; k < end; ++k) { values.push_back(line.nights[k].images_per_second); }
    levels.push_back({{"style", style},
                      {"from", line.nights[starts[i]].experiment->started_at},
                      {"to", line.nights[end - 1].experiment->started_at},
                      {"level", rounded(mean(values))}});
  }
}

void add_line(const SeriesLine& line, const ArmOrder& order, Chart& chart) {
  const auto key = arm_key(order, line.arm);
  const auto position = chart.key.size();
  chart.key.push_back(key);
  for (const auto& night : line.nights) {
    chart.data["points"].push_back(
        {{"style", key.mark},
         {"arm", key.words},
         {"at", night.experiment->started_at},
         {"value", night.images_per_second},
         {"tip", fmt::format("{}\n{}, {:.1f} images/s\n{}", night.experiment->started_at, key.words,
                             night.images_per_second, night.experiment->id)}});
    chart.table.rows.push_back({cell(night.experiment->started_at), cell(key.words),
                                cell(std::optional(night.images_per_second), 1), cell(night.experiment->id)});
  }
  for (const auto& change : line.changes) {
    chart.data["changes"].push_back(
        {{"style", key.mark},
         {"at", line.nights[change.index].experiment->started_at},
         {"position", position},
         {"words", fmt::format("{} {}{:.1f} %", key.words, change.regression() ? "−" : "+",
                               100 * std::abs(change.relative_change))},
         {"tip", change_words(line, change)}});
  }
  add_levels(line, key.mark, chart.data["levels"]);
}

Chart chart_of(const std::string& case_name, const std::vector<SeriesLine>& lines, const ArmOrder& order,
               std::size_t number) {
  Chart chart;
  chart.id = fmt::format("series-{}", number);
  chart.spec = "series";
  chart.title = case_name + ": throughput from experiment to experiment";
  chart.summary = summary_of(lines);
  for (const char* set : {"points", "changes", "levels"}) { chart.data[set] = nlohmann::json::array(); }
  chart.table.columns = {{"started_at", "Started"},
                         {"arm", "Arm"},
                         {"images_per_second", "Images/s", true},
                         {"experiment", "Experiment"}};
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const auto& line : lines) {
    add_line(line, order, chart);
    for (const auto& night : line.nights) {
      low = std::min(low, night.images_per_second);
      high = std::max(high, night.images_per_second);
    }
  }
  set_value_axis(chart, low, high);
  chart.zoom = true;
  return chart;
}

}  // namespace

std::vector<Chart> series_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<Chart> charts;
  if (data.experiments.size() < least_experiments) { return charts; }
  auto trials = usable_trials(data.trials);
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    if (charts.size() == most_series_charts) { break; }
    const auto lines = lines_of(data, trials[comparison.case_name]);
    if (!lines.empty()) { charts.push_back(chart_of(comparison.case_name, lines, order, charts.size() + 1)); }
  }
  return charts;
}

}  // namespace virtrain::results
