#include "results/report/charts/draw_charts.h"

#include <algorithm>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "report_embedded.h"
#include "results/report/data/course.h"

namespace virtrain::results {

using nlohmann::json;

namespace {

json embedded(std::string_view text) {
  return parse_json(text, "read a specification of the report's charts", ErrorCode::io);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Replaces hidden characters in names: they would pass through Vega, which escapes names for HTML, and turn
/// the words of a chart around.
void make_printable(json& value) {
  if (value.is_string()) {
    value = printable(value.get<std::string>());
  } else if (value.is_structured()) {
    for (auto& part : value) { make_printable(part); }
  }
}

/// Leaves as many points of each line as a still picture shows.
void decimate_lines(json& page) {
  constexpr std::size_t most_of_picture = 2000, least_of_line = 60;
  for (auto& chart : page["charts"]) {
    const auto lines = chart["data"].find("lines");
    if (lines == chart["data"].end()) { continue; }
    const auto most = std::max(least_of_line, most_of_picture / std::max<std::size_t>(1, lines->size()));
    for (auto& line : *lines) {
      auto &times = line["t"], &values = line["v"];
      std::vector<Point> points;
      for (std::size_t i = 0; i < times.size(); ++i) {
        points.push_back({times[i].get<double>(), values[i].get<double>()});
      }
      times = values = json::array();
      for (const auto& point : decimate(points, most)) {
        times.push_back(point.t_seconds);
        values.push_back(point.value);
      }
    }
  }
}

}  // namespace

std::string script_json(const json& value) {
  std::string text = dump_json(value);
  replace_all(text, "<", "\\u003c");
  replace_all(text, ">", "\\u003e");
  replace_all(text, "&", "\\u0026");
  return text;
}

json charts_json(const std::vector<Chart>& charts) {
  json specs{
      {"forest", embedded(report::forest_vg_json)}, {"scaling", embedded(report::scaling_vg_json)},
      {"course", embedded(report::course_vg_json)}, {"isolation", embedded(report::isolation_vg_json)},
      {"series", embedded(report::series_vg_json)}, {"sweep", embedded(report::sweep_vg_json)},
      {"nights", embedded(report::nights_vg_json)}, {"throughput", embedded(report::throughput_vg_json)},
      {"probes", embedded(report::probes_vg_json)}};
  json list = json::array();
  for (const auto& chart : charts) {
    list.push_back({{"id", chart.id},
                    {"spec", chart.spec},
                    {"data", chart.data},
                    {"signals", chart.signals},
                    {"scales", chart.scales}});
    make_printable(list.back());
  }
  return {{"specs", specs}, {"theme", embedded(report::theme_json)}, {"charts", list}};
}

std::vector<Pictures> draw_charts(std::vector<json> pages) {
  for (auto& page : pages) { decimate_lines(page); }
  CommandOptions options;
  options.deadline = std::chrono::seconds(60) * std::max<std::size_t>(1, pages.size());
  options.max_output_bytes = std::size_t{256} << 20;
  options.input = std::string(vega_bundle()) + "\n" + std::string(report::static_js) + "\ndrawPages(" +
                  script_json(pages) + ", " + json(static_widths).dump() +
                  ").then((pictures) => process.stdout.write(JSON.stringify(pictures)));\n";
  // A program on standard input: no file of ours has to be found, and none is left behind.
  const auto result = run_checked({"node", "-"}, options);
  const auto pictures = parse_json_or_null(result.out, {.bytes = options.max_output_bytes});
  if (!pictures.is_array() || pictures.size() != pages.size()) {
    throw Error("draw the charts with node", ErrorCode::io, "its answer is not JSON: " + excerpt(result.out));
  }
  return pictures.get<std::vector<Pictures>>();
}

}  // namespace virtrain::results
