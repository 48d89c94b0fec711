#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/text/units.h"
#include "results/report/figures/figures.h"
#include "results/tables/render.h"

namespace virtrain::results {
namespace {

/// One operation over its sizes: what each arm did at each of them.
struct SizeCurve {
  ProbeKey key;  ///< of its smallest size
  std::map<std::int64_t, std::map<std::string, ProbeReadings>> sizes;
};

/// The operations that were probed at three sizes or more.
std::vector<SizeCurve> curves_of(const ReportData& data) {
  std::vector<SizeCurve> curves;
  for (const auto& [key, arms] : probe_figures(data.probes)) {
    if (key.size_bytes <= 0 || key.unit != "B/s") { continue; }
    auto without_size = key;
    const auto same = [&](const SizeCurve& curve) {
      without_size.size_bytes = curve.key.size_bytes;
      return curve.key == without_size;
    };
    auto known = std::ranges::find_if(curves, same);
    if (known == curves.end()) { known = curves.insert(curves.end(), SizeCurve{key, {}}); }
    known->sizes[key.size_bytes] = arms;
  }
  std::erase_if(curves, [](const SizeCurve& curve) { return curve.sizes.size() < 3; });
  return curves;
}

/// "all reduce, float, 2 ranks, in place".
std::string operation_words(const ProbeKey& key) {
  std::string words = spaced(key.name);
  if (!key.data_type.empty()) { words += ", " + key.data_type; }
  if (key.ranks > 0) { words += ", " + counted(key.ranks, "rank"); }
  if (key.nodes > 0) { words += ", " + counted(key.nodes, "node"); }
  if (const auto side = side_words(key); !side.empty()) { words += ", " + side; }
  return words;
}

bool has_bus(const SizeCurve& curve) {
  return std::ranges::all_of(curve.sizes, [](const auto& size) {
    return std::ranges::all_of(size.second, [](const auto& arm) { return !arm.second.bus.empty(); });
  });
}

Chart chart_of(const SizeCurve& curve, const ArmOrder& order, std::size_t number) {
  const bool bus = has_bus(curve);
  Chart chart;
  chart.id = fmt::format("probe-{}", number);
  chart.spec = "probes";
  chart.title =
      fmt::format("{}: {} against size", operation_words(curve.key), bus ? "bus bandwidth" : "bandwidth");
  chart.data["points"] = nlohmann::json::array();
  chart.table.columns = {{"size_bytes", "Size, bytes", true}, {"arm", "Arm"},
                         {"readings", "Readings", true},      {"lowest", "Lowest, GB/s", true},
                         {"median", "Median, GB/s", true},    {"highest", "Highest, GB/s", true}};
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  std::map<std::string, double> at_largest;
  for (const auto& [size, arms] : curve.sizes) {
    for (const auto& [arm, readings] : arms) {
      const auto& values = bus ? readings.bus : readings.values;
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      const double median = quantile(values, 0.5);
      if (*least <= 0) { continue; }
      low = std::min(low, *least);
      high = std::max(high, *most);
      if (size == curve.sizes.rbegin()->first) { at_largest[arm] = median; }
      const auto key = arm_key(order, arm);
      add_key(chart, key);
      chart.data["points"].push_back(
          {{"style", key.mark},
           {"size", size},
           {"value", rounded(median / 1e9)},
           {"low", rounded(*least / 1e9)},
           {"high", rounded(*most / 1e9)},
           {"tip", fmt::format("{}\n{}: {}", key.words, format_size(static_cast<std::uint64_t>(size)),
                               figure_with_unit(median, "B/s"))}});
      const auto gigabytes = [](double value) { return cell(std::optional(value / 1e9), 3); };
      chart.table.rows.push_back({cell(size), cell(key.words), cell(static_cast<std::int64_t>(values.size())),
                                  gigabytes(*least), gigabytes(median), gigabytes(*most)});
    }
  }
  std::vector<std::string> parts;
  parts.reserve(at_largest.size());
  for (const auto& [arm, value] : at_largest) {
    parts.push_back(fmt::format("{} {}", arm_words(arm), figure_with_unit(value, "B/s")));
  }
  chart.summary = fmt::format(
      "At {}: {}. Points are medians, lines go from the lowest reading to the highest.",
      format_size(static_cast<std::uint64_t>(curve.sizes.rbegin()->first)), fmt::join(parts, ", "));
  chart.signals = {
      {"sizes", {curve.sizes.begin()->first, curve.sizes.rbegin()->first}},
      {"values", {low / 1e9 / 1.2, high / 1e9 * 1.2}},
      {"value_title", bus ? "Bus bandwidth, GB/s, logarithmic axes" : "Bandwidth, GB/s, logarithmic axes"}};
  return chart;
}

}  // namespace

std::vector<Chart> probe_charts(const ReportData& data, const ArmOrder& order) {
  std::vector<Chart> charts;
  for (const auto& curve : curves_of(data)) {
    if (charts.size() == most_probe_charts) { break; }
    auto chart = chart_of(curve, order, charts.size() + 1);
    if (!chart.table.rows.empty()) { charts.push_back(std::move(chart)); }
  }
  return charts;
}

}  // namespace virtrain::results
