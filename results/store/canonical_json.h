#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace virtrain::results {

/// The shortest decimal text that reads back as this double: "10675.0925", "1e-09". Finite values only.
std::string shortest_number(double value);

/// JSON on one line with sorted keys, no blanks and shortest round-trip numbers: equal values, equal bytes.
std::string canonical_json(const nlohmann::json& value);

/// Parses one JSON text and refuses what nlohmann's parser lets pass: the same key twice in an object. Throws
/// Error(bad_input) whose operation is `position`, for example "data.jsonl:7".
nlohmann::json parse_strict_json(std::string_view text, const std::string& position);

}  // namespace virtrain::results
