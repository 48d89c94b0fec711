#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>

#include "common/text/json.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {

/// The JSON value of the present line from its byte `start` on; refuses what is not JSON with line and
/// column.
nlohmann::json parse_part(const LineReader& lines, std::size_t start, const JsonLimits& limits);

/// Whether the present line is the last, has no end and no whole JSON value from its byte `start` on.
bool is_torn(const LineReader& lines, std::size_t start);

/// One JSON value that takes the whole file. Refuses more than 16 MiB.
nlohmann::json read_document(LineReader& lines);

/// Refuses a file whose first line is no JSON: where that line is damaged, or, if the next begins no object,
/// where the one value that takes the whole file is. Rewinds.
void require_json(LineReader& lines);

}  // namespace virtrain::results
