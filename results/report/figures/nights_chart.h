#pragma once

#include <string>

#include "results/changes/series_state.h"
#include "results/report/charts/chart.h"

namespace virtrain::results {

/// Last nights that the table below a figure lists; the figure shows all.
inline constexpr std::size_t listed_nights = 30;

/// One series over its nights, in the order of storing: level with the band of changes too small to matter,
/// changes, and the nights that each of them lasted.
Chart nights_chart(const SeriesState& state, const std::string& id);

}  // namespace virtrain::results
