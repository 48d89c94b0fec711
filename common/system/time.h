#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace virtrain {

/// CLOCK_MONOTONIC in nanoseconds: the clock of every sample.
std::int64_t monotonic_ns();
/// Wall clock in nanoseconds since 1970.
std::int64_t wall_ns();
/// "2026-11-20T08:06:49.123Z" from wall-clock nanoseconds.
std::string iso8601(std::int64_t wall_clock_ns);
/// Whole seconds since 1970 of such a text; nothing of any other, which an import may bring.
std::optional<std::int64_t> seconds_of_iso8601(const std::string& time);

}  // namespace virtrain
