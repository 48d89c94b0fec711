#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "results/report/charts/chart.h"

namespace virtrain::results {

/// JSON that can stand in a <script> element: nothing in it ends the element or opens a comment. Bytes that
/// are no UTF-8 become U+FFFD.
std::string script_json(const nlohmann::json& value);

/// Pictures of one chart: an <svg> element for each of static_widths, of a course the last one only.
using Pictures = std::map<std::string, std::vector<std::string>>;

/// Widths in pixels of the still pictures: of a phone and of a page.
inline constexpr int static_widths[] = {328, 760};

/// Input of page.js and static.js: specifications, theme, and the charts' values.
nlohmann::json charts_json(const std::vector<Chart>& charts);

/// Draws every chart of each page in one node process, by the code that draws it in the page. Error where
/// node cannot run or draw.
std::vector<Pictures> draw_charts(std::vector<nlohmann::json> pages);

/// scripts/charts.js with the parts of Vega that it imports, as one script for browsers and node.
std::string_view vega_bundle();

}  // namespace virtrain::results
