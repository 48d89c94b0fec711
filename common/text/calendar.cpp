#include "common/text/calendar.h"

#include <algorithm>
#include <chrono>

namespace virtrain {

bool is_on_calendar(std::string_view iso8601_beginning) {
  const auto part = [&](std::size_t at, int otherwise) {
    const auto text = iso8601_beginning.substr(std::min(at, iso8601_beginning.size()), 2);
    return text.size() < 2 ? otherwise : (text[0] - '0') * 10 + (text[1] - '0');
  };
  const std::chrono::year year(part(0, 0) * 100 + part(2, 0));
  const auto month = static_cast<unsigned>(part(5, 1)), day = static_cast<unsigned>(part(8, 1));
  return std::chrono::year_month_day(year, std::chrono::month(month), std::chrono::day(day)).ok() &&
         part(11, 0) < 24 && part(14, 0) < 60 && part(17, 0) <= 60;
}

}  // namespace virtrain
