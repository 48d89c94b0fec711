#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "common/contains.h"
#include "common/text/units.h"
#include "results/report/data/course.h"
#include "results/report/figures/figures.h"

namespace virtrain::results {
namespace {

// Points of one figure, over all its lines: enough for every pixel, few enough for a light page.
constexpr std::size_t most_points_of_figure = 12'000;
constexpr std::size_t most_points_of_line = 2'000;
constexpr std::size_t least_points_of_line = 200;

// Lines of so few points show where these are; a line of one point would show nothing else.
constexpr std::size_t most_dots_of_line = 20;

constexpr double panel_gap = 40;

std::vector<double> values_of(const CourseLine& line) {
  std::vector<double> values;
  for (const auto& point : line.points) { values.push_back(point.value); }
  return values;
}

double height_of(const CoursePanel& panel) {
  return panel.is_throughput ? 130 : 72;
}

std::size_t points_of_line(const std::vector<CoursePanel>& panels) {
  std::size_t lines = 0;
  for (const auto& panel : panels) { lines += panel.lines.size(); }
  return std::clamp(most_points_of_figure / std::max<std::size_t>(1, lines), least_points_of_line,
                    most_points_of_line);
}

/// From zero (throughputs, rates and shares are amounts) to just above the highest value.
double top_of(const CoursePanel& panel) {
  double top = 0;
  for (const auto& line : panel.lines) {
    for (const auto& point : line.points) { top = std::max(top, point.value); }
  }
  return top > 0 ? top * 1.08 : 1;
}

/// Gauges such as clocks and temperatures vary far from zero.
double bottom_of(const CoursePanel& panel) {
  if (panel.unit != "MHz" && panel.unit != "°C") { return 0; }
  double bottom = std::numeric_limits<double>::infinity();
  for (const auto& line : panel.lines) {
    for (const auto& point : line.points) { bottom = std::min(bottom, point.value); }
  }
  return bottom * 0.95;
}

/// Names of the nodes of each arm, in their order: they have shades of its colour.
using NodesOfArms = std::map<std::string, std::vector<std::string>>;

NodesOfArms nodes_of(const std::vector<CoursePanel>& panels) {
  NodesOfArms nodes;
  for (const auto& panel : panels) {
    if (panel.is_throughput) { continue; }
    for (const auto& line : panel.lines) { add_once(nodes[line.arm], line.name); }
  }
  return nodes;
}

std::ptrdiff_t shade_of(const NodesOfArms& nodes, const CoursePanel& panel, const CourseLine& line) {
  if (panel.is_throughput) { return 0; }
  const auto& names = nodes.at(line.arm);
  return std::ranges::find(names, line.name) - names.begin();
}

/// An entry for each arm, and where an arm has several nodes for each of them.
void add_nodes(const KeyEntry& arm, const std::vector<std::string>& nodes, Chart& chart) {
  if (nodes.size() < 2) { return add_key(chart, arm); }
  add_key(chart, {arm.mark, fmt::format("{}, and its node {}", arm.words, nodes.front())});
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    add_key(chart, {fmt::format("{} node-{}{}", arm.mark, i % 4, i > 3 ? " dashed" : ""),
                    fmt::format("{} {}", arm.words, nodes[i])});
  }
}

nlohmann::json lines_of(const std::vector<CoursePanel>& panels, const ArmOrder& order,
                        const NodesOfArms& nodes) {
  auto rows = nlohmann::json::array();
  double y = 0;
  int number = 0;
  const auto most = points_of_line(panels);
  for (const auto& panel : panels) {
    const double bottom = bottom_of(panel);
    const double top = top_of(panel);
    for (const auto& line : panel.lines) {
      nlohmann::json times = nlohmann::json::array();
      nlohmann::json values = nlohmann::json::array();
      for (const auto& point : decimate(line.points, most)) {
        times.push_back(rounded(point.t_seconds));
        values.push_back(rounded(point.value, 6));
      }
      rows.push_back({{"panel", panel.title + ", " + panel.unit},
                      {"unit", panel.unit},
                      {"y", y},
                      {"height", height_of(panel)},
                      {"low", bottom},
                      {"high", top},
                      {"line", ++number},
                      {"sparse", line.points.size() <= most_dots_of_line},
                      {"style", arm_key(order, line.arm).mark},
                      {"node", shade_of(nodes, panel, line)},
                      {"arm", arm_words(line.arm)},
                      {"name", line.name},
                      {"t", std::move(times)},
                      {"v", std::move(values)}});
    }
    y += height_of(panel) + panel_gap;
  }
  return rows;
}

Table table_of(const std::vector<CoursePanel>& panels) {
  Table table;
  table.columns = {{"panel", "What"},
                   {"arm", "Arm"},
                   {"name", "Of"},
                   {"readings", "Readings", true},
                   {"lowest", "Lowest", true},
                   {"median", "Median", true},
                   {"mean", "Mean", true},
                   {"highest", "Highest", true}};
  for (const auto& panel : panels) {
    for (const auto& line : panel.lines) {
      const auto values = values_of(line);
      const auto figure = [&](double value) { return cell(figure_words(value)); };
      table.rows.push_back({cell(panel.title + ", " + panel.unit), cell(arm_words(line.arm)), cell(line.name),
                            cell(static_cast<std::int64_t>(values.size())), figure(quantile(values, 0)),
                            figure(quantile(values, 0.5)), figure(mean(values)),
                            figure(quantile(values, 1))});
    }
  }
  return table;
}

/// "Drawn: bare metal, pair 3, and VM, pair 4: of each arm the trial with samples that is nearest to the
/// median."
std::string chosen_words(const std::vector<const TrialRecord*>& trials) {
  std::vector<std::string> parts;
  bool chosen = false;
  for (const auto* record : trials) {
    std::string words = arm_words(record->trial.arm);
    if (record->trial.pair) { words += fmt::format(", pair {}", *record->trial.pair); }
    parts.push_back(words);
    chosen = chosen || record->trials > 1;
  }
  return fmt::format("Drawn: {}{}.", fmt::join(parts, " and "),
                     chosen ? ", of each arm the trial with samples nearest to the median" : "");
}

/// "bare metal 5,480 images/s, lowest 4,100 after 13 s": the middle and the deepest dip of each line of
/// throughput.
std::string throughput_words(const std::vector<CoursePanel>& panels) {
  std::string unit;
  std::vector<std::string> parts;
  for (const auto& panel : panels) {
    if (!panel.is_throughput) { continue; }
    unit = panel.unit;
    for (const auto& line : panel.lines) {
      const auto values = values_of(line);
      const auto lowest = std::ranges::min_element(
          line.points, [](const Point& a, const Point& b) { return a.value < b.value; });
      parts.push_back(fmt::format("{}, {}: median {}, lowest {} at {} s", arm_words(line.arm), line.name,
                                  figure_words(quantile(values, 0.5)), figure_words(lowest->value),
                                  figure_words(lowest->t_seconds)));
    }
  }
  constexpr std::size_t most_lines = 4;  // more are no summary; the table has them all
  if (parts.size() > most_lines) { return ""; }
  return fmt::format("{}: {}. ", unit == images_unit ? "Images per second" : unit, fmt::join(parts, "; "));
}

/// Sentence on points that the page does not show.
std::string decimation_words(const std::vector<CoursePanel>& panels) {
  std::size_t longest = 0;
  for (const auto& panel : panels) {
    for (const auto& line : panel.lines) { longest = std::max(longest, line.points.size()); }
  }
  const auto most = points_of_line(panels);
  if (longest <= most) { return ""; }
  return fmt::format(
      " Lines of up to {} readings are drawn with at most {} points; every dip and peak is among them.",
      longest, most);
}

/// Where arms are as far apart as an emulated machine and a real one, their throughput is drawn against each
/// one's own median: on one axis the slower one's course would be a line at the bottom.
std::vector<CoursePanel> drawable(std::vector<CoursePanel> panels) {
  for (auto& panel : panels) {
    if (!panel.is_throughput) { continue; }
    double low = std::numeric_limits<double>::infinity();
    double high = 0;
    for (const auto& line : panel.lines) {
      const double median = quantile(values_of(line), 0.5);
      low = std::min(low, median);
      high = std::max(high, median);
    }
    if (!needs_logarithm(low, high)) { continue; }
    panel.unit = "% of its median";
    for (auto& line : panel.lines) {
      const double median = quantile(values_of(line), 0.5);
      for (auto& point : line.points) { point.value *= 100 / median; }
    }
  }
  return panels;
}

Chart chart_of(const std::string& name, const std::vector<const TrialRecord*>& trials, const ArmOrder& order,
               std::size_t number) {
  const auto panels = course_of(trials);
  auto nodes = nodes_of(panels);
  Chart chart;
  chart.id = fmt::format("course-{}", number);
  chart.spec = "course";
  chart.title = name + ": throughput over time";
  chart.summary = throughput_words(panels) + chosen_words(trials) + decimation_words(panels);
  chart.data["lines"] = lines_of(drawable(panels), order, nodes);
  double last = 0;
  double height = -panel_gap;
  for (const auto& panel : panels) {
    height += height_of(panel) + panel_gap;
    for (const auto& line : panel.lines) { last = std::max(last, line.points.back().t_seconds); }
  }
  chart.signals = {{"whole", {0, rounded(last)}}, {"height", height}};
  for (const auto* record : trials) {
    add_nodes(arm_key(order, record->trial.arm), nodes[record->trial.arm], chart);
  }
  chart.table = table_of(panels);
  chart.zoom = true;
  return chart;
}

}  // namespace

std::vector<Chart> course_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<Chart> charts;
  for (const auto& comparison : data.comparisons) {
    if (!comparison.first_of_case) { continue; }
    std::vector<const TrialRecord*> trials;
    for (const auto& record : data.records) {
      const bool is_its = record.trial.case_name == comparison.case_name &&
                          unit_of(record.trial.throughput) == comparison.throughput_unit;
      if (is_its) { trials.push_back(&record); }
    }
    if (!trials.empty()) {
      charts.push_back(chart_of(comparison.case_name + in_unit(comparison.throughput_unit), trials, order,
                                charts.size() + 1));
    }
  }
  return charts;
}

}  // namespace virtrain::results
