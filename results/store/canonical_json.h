#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace virtrain::results {

/// The shortest decimal text that reads back as this double: "10675.0925", "1e-09". Finite values only.
std::string shortest_number(double value);

/// JSON on one line with sorted keys, no blanks and shortest round-trip numbers: equal values, equal bytes.
std::string canonical_json(const nlohmann::json& value);

}  // namespace virtrain::results
