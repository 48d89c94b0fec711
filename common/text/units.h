#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace virtrain {

/// "512MiB", "64GiB", "4096" (bytes). Whole numbers of binary units only (B, KiB, MiB, GiB, TiB); nothing on
/// any other text, and nothing above 2^63 - 1.
std::optional<std::uint64_t> parse_size_bytes(std::string_view text);
/// "2%" or "0.02" as the fraction 0.02; nothing unless finite.
std::optional<double> parse_share(std::string_view text);
/// "30s", "5m", "2h", "500ms" in nanoseconds; a bare number is refused.
std::optional<std::int64_t> parse_duration_ns(std::string_view text);
/// A number of finite value; the whole text must be the number.
std::optional<double> parse_number(std::string_view text);
/// The same with or without commas between groups of digits ("1,234.5"), or with commas behind it. "1,5" is
/// no such number: a comma may stand for a decimal point there.
std::optional<double> parse_grouped_number(std::string_view text);
/// A whole number; the whole text must be the number.
std::optional<std::int64_t> parse_integer(std::string_view text);

/// "1 trial", "2 trials"; `many` where that is not `one` with an s.
std::string counted(std::uint64_t count, std::string_view one, std::string_view many = "");
/// Largest binary unit that divides exactly, otherwise two digits: "64GiB", "1.50GiB".
std::string format_size(std::uint64_t bytes);
/// "1.5 s", "2 min 03 s", "12 ms": for people.
std::string format_duration(std::int64_t nanoseconds);
/// The same of seconds, which may be more than nanoseconds have room for; of centuries the order of
/// magnitude.
std::string format_seconds(double seconds);
/// About four digits, as people write them: "10980", "54.31", "0.0123".
std::string figure_words(double value);

/// Whether calendar and clock have the moment of which this is the beginning, as long as it is: "2026-02",
/// "2026-02-28T23:59". Its form, digits and separators, has been checked; a leap second is a moment.
bool is_on_calendar(std::string_view iso8601_beginning);

}  // namespace virtrain
