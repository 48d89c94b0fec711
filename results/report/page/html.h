#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>

#include "results/report/charts/draw_charts.h"

namespace virtrain::results {

/// The Mustache template with the values of `model`, which are escaped: {{name}}. `partials` are the
/// templates that it may include with {{>name}}; dates inside {{#dated}} are not broken. Error(io) for a
/// template that is none.
std::string render_template(std::string_view text, const nlohmann::json& model,
                            const std::map<std::string, std::string_view>& partials);

/// The whole page.
std::string page_html(const nlohmann::json& page_model, const nlohmann::json& charts,
                      const Pictures& pictures);
/// The first page of a schedule's site.
std::string site_html(const nlohmann::json& site_model, const nlohmann::json& charts,
                      const Pictures& pictures);

}  // namespace virtrain::results
