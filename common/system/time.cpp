#include "common/system/time.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace virtrain {
namespace {

std::int64_t read_clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

std::int64_t monotonic_ns() {
  return read_clock_ns(CLOCK_MONOTONIC);
}

std::int64_t wall_ns() {
  return read_clock_ns(CLOCK_REALTIME);
}

std::string iso8601(std::int64_t wall_clock_ns) {
  const std::time_t seconds = wall_clock_ns / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     wall_clock_ns % 1'000'000'000 / 1'000'000);
}

std::optional<std::int64_t> seconds_of_iso8601(const std::string& time) {
  std::tm fields{};
  const char* rest = ::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &fields);
  // A fraction and a Z may follow; another time zone is not read.
  if (rest == nullptr || std::string_view(rest).find_first_not_of(".0123456789Z") != std::string_view::npos) {
    return std::nullopt;
  }
  return ::timegm(&fields);
}

}  // namespace virtrain
