#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace virtrain::results {

// Spellings that vary between files; the database, which compares texts as they are, has one.

/// ISO 8601 with a zone and at most nanoseconds, "2022-05-01T02:00:00.25+02:00", as the same moment in UTC,
/// "2022-05-01T00:00:00.25Z"; nothing of another text.
std::optional<std::string> in_utc(std::string_view time);
/// Milliseconds since 1970 of such a text.
std::optional<std::int64_t> milliseconds_of(std::string_view time);

/// fp32, fp16, bf16, tf32 or fp64 of their common spellings ("float16", "FP16", "half", …); other names as
/// they are.
std::string precision_name(std::string_view spelling);

}  // namespace virtrain::results
