#pragma once

#include <string_view>

namespace virtrain::results {

/// scripts/charts.js with the parts of Vega that it imports, as one script for browsers and node.
std::string_view vega_bundle();

}  // namespace virtrain::results
