#pragma once

#include <string>

#include "results/changes/series_state.h"
#include "results/report/charts/chart.h"

namespace virtrain::results {

/// Last nights that the table below a figure lists; the figure shows all.
inline constexpr std::size_t listed_nights = 30;

/// "-10.1 %"
std::string change_percent(double ratio);
/// "2026-10-16" of a night, or its experiment where it has no date.
std::string day_words(const Night& night);
/// "-10.1 % (-10.3 % to -9.8 %), worse, since 2026-10-16, open".
std::string change_sentence(const Change& change);

/// One series over its nights, in the order of storing: level with the band of changes too small to matter,
/// changes, and the nights that each of them lasted.
Chart nights_chart(const SeriesState& state, const std::string& id);

}  // namespace virtrain::results
