#pragma once

#include <string_view>

namespace virtrain {

/// Whether calendar and clock have the moment of which this is the beginning, as long as it is: "2026-02",
/// "2026-02-28T23:59". Its form, digits and separators, has been checked; a leap second is a moment.
bool is_on_calendar(std::string_view iso8601_beginning);

}  // namespace virtrain
