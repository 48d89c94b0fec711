#include "results/exchange/records/spellings.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>

#include "common/text/calendar.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

/// Zones differ by whole minutes: a moment's seconds are those of any zone.
struct Moment {
  std::int64_t minutes;      ///< since 1970, in UTC
  std::string_view seconds;  ///< "00.25"
};

/// Minutes by which the zone "Z" or "+02:00" is ahead of UTC.
std::optional<int> zone_minutes(std::string_view zone) {
  if (zone == "Z") { return 0; }
  Scanner in(zone);
  const bool is_behind = in.take("-");
  if (!is_behind && !in.take("+")) { return std::nullopt; }
  const auto hours = parse_integer(in.take_while(is_digit, 2, 2));
  if (!hours || *hours > 23 || !in.take(":")) { return std::nullopt; }
  const auto minutes = parse_integer(in.take_while(is_digit, 2, 2));
  if (!minutes || *minutes > 59 || !in.at_end()) { return std::nullopt; }
  return static_cast<int>((*hours * 60 + *minutes) * (is_behind ? -1 : 1));
}

std::optional<Moment> moment_of(std::string_view text) {
  Scanner in(text);
  const bool is_moment = in.take_digits(4) && in.take("-") && in.take_digits(2) && in.take("-") &&
                         in.take_digits(2) && in.take("T") && in.take_digits(2) && in.take(":") &&
                         in.take_digits(2) && in.take(":") && in.take_digits(2) && is_on_calendar(text);
  if (!is_moment || (in.take(".") && in.take_while(is_digit, 1, 9).empty())) { return std::nullopt; }
  const auto zone = zone_minutes(in.rest());
  if (!zone) { return std::nullopt; }
  const auto part = [&](std::size_t at, std::size_t size) {
    return static_cast<int>(parse_integer(text.substr(at, size)).value_or(0));
  };
  const std::chrono::sys_days day = std::chrono::year(part(0, 4)) /
                                    std::chrono::month(static_cast<unsigned>(part(5, 2))) /
                                    std::chrono::day(static_cast<unsigned>(part(8, 2)));
  const std::int64_t days = day.time_since_epoch().count();
  constexpr std::size_t seconds_at = 17;
  return Moment{days * 1440 + std::int64_t{part(11, 2)} * 60 + part(14, 2) - *zone,
                text.substr(seconds_at, text.size() - seconds_at - in.rest().size())};
}

}  // namespace

std::optional<std::string> in_utc(std::string_view time) {
  const auto moment = moment_of(time);
  if (!moment) { return std::nullopt; }
  const std::chrono::sys_time<std::chrono::minutes> minutes{std::chrono::minutes(moment->minutes)};
  const auto day = std::chrono::floor<std::chrono::days>(minutes);
  const std::chrono::year_month_day date(day);
  const auto of_day = (minutes - day).count();
  const int year = static_cast<int>(date.year());
  if (year < 0 || year > 9999) { return std::nullopt; }
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{}Z", year, static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), of_day / 60, of_day % 60, moment->seconds);
}

std::optional<std::int64_t> milliseconds_of(std::string_view time) {
  const auto moment = moment_of(time);
  if (!moment) { return std::nullopt; }
  return moment->minutes * 60'000 + std::llround(parse_number(moment->seconds).value_or(0) * 1000);
}

std::string precision_name(std::string_view spelling) {
  static const std::map<std::string_view, const char*> names = {
      {"float64", "fp64"}, {"double", "fp64"},   {"fp32", "fp32"},         {"float32", "fp32"},
      {"f32", "fp32"},     {"single", "fp32"},   {"fp16", "fp16"},         {"float16", "fp16"},
      {"f16", "fp16"},     {"half", "fp16"},     {"bf16", "bf16"},         {"bfloat16", "bf16"},
      {"tf32", "tf32"},    {"tfloat32", "tf32"}, {"tensorfloat32", "tf32"}};
  const auto found = names.find(lower(std::string(trim(spelling))));
  return found == names.end() ? std::string(spelling) : found->second;
}

}  // namespace virtrain::results
