#pragma once

#include <string>
#include <vector>

#include "results/changes/changes.h"
#include "results/report/charts/chart.h"
#include "results/report/data/report_data.h"

// A figure of the report each, in <name>_chart.cpp.

namespace virtrain::results {

// More figures would make the page heavy; the section says that it has the first ones only.
inline constexpr std::size_t most_probe_charts = 8;
inline constexpr std::size_t most_series_charts = 12;

/// Ratios of all cases with their intervals and the band of equivalence; nothing if no case has a ratio.
std::vector<Chart> forest_charts(const ReportData& data);
/// Throughput of every case and arm, a chart for each unit: the means and each valid trial; nothing if
/// nothing was measured.
std::vector<Chart> throughput_charts(const ReportData& data, const ArmOrder& order);
/// Bandwidth against size of each operation that was probed at three sizes or more.
std::vector<Chart> probe_charts(const ReportData& data, const ArmOrder& order);
/// Speedup and efficiency of each weak scaling beside the ideal and the published one.
std::vector<Chart> scaling_charts(const ReportData& data, const ArmOrder& order);
/// Throughput of each arm over the points of each sweep, with intervals.
std::vector<Chart> sweep_charts(const ReportData& data, const ArmOrder& order);
/// Throughput and telemetry over time, one figure for each case that has samples.
std::vector<Chart> course_charts(const ReportData& data, const ArmOrder& order);
/// Slowdowns of tenants next to each other; nothing if no tenant ran alone too.
std::vector<Chart> isolation_charts(const ReportData& data);
/// Losses of each victim beside its neighbours, drawn as the slowdowns of tenants are.
std::vector<Chart> neighbour_charts(const ReportData& data);
/// Each case's throughput over the experiments' dates with its lasting changes, where there are enough of
/// them.
std::vector<Chart> series_charts(const ReportData& data, const ArmOrder& order);

/// Last nights that the table below a figure lists; the figure shows all.
inline constexpr std::size_t listed_nights = 30;

/// One series over its nights, in the order of storing: level with the band of changes too small to matter,
/// changes, and the nights that each of them lasted.
Chart nights_chart(const SeriesState& state, const std::string& id);

}  // namespace virtrain::results
