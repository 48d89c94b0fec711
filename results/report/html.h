#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "results/report/chart.h"

namespace virtrain::results {

/// JSON that can stand in a <script> element: nothing in it ends the element or opens a comment. Bytes that
/// are no UTF-8 become U+FFFD.
std::string script_json(const nlohmann::json& value);

/// The Mustache template with the values of `model`, which are escaped: {{name}}. `partials` are the
/// templates that it may include with {{>name}}. Error(io) for a template that is none.
std::string render_template(std::string_view text, const nlohmann::json& model,
                            const std::map<std::string, std::string_view>& partials);

/// Pictures of one chart: an <svg> element for each of static_widths.
using Pictures = std::map<std::string, std::vector<std::string>>;

/// Widths in pixels of the still pictures: of a phone and of a page.
inline constexpr int static_widths[] = {328, 760};

/// What page.js and static.js draw from: specifications, theme, and the charts' values.
nlohmann::json charts_json(const std::vector<Chart>& charts);

/// Draws every chart in node, by the code that draws it in the page. Error where node cannot run or draw.
Pictures draw_charts(const nlohmann::json& charts);

/// The whole page.
std::string page_html(const nlohmann::json& page_model, const nlohmann::json& charts,
                      const Pictures& pictures);

}  // namespace virtrain::results
