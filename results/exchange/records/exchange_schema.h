#pragma once

#include <nlohmann/json.hpp>

namespace virtrain::results {

/// The JSON Schema (draft 7) of a line of the exchange format, made of the records' descriptions and rules.
nlohmann::ordered_json exchange_schema();

}  // namespace virtrain::results
