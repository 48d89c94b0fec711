#include "common/text/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/text/scanner.h"

namespace virtrain {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 5> size_units{
    {{"TiB", 1ULL << 40}, {"GiB", 1ULL << 30}, {"MiB", 1ULL << 20}, {"KiB", 1ULL << 10}, {"B", 1}}};
constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> duration_units{
    {{"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}}};

std::size_t digits_before(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> parse_grouped_number(std::string_view text) {
  while (text.ends_with(',')) { text.remove_suffix(1); }
  // Groups are of three digits; of two before the last one where people count lakhs.
  constexpr std::size_t whole_group = 3, least_group = 2;
  std::string digits;
  bool is_first = true;
  for (auto comma = text.find(','); comma != text.npos; comma = text.find(',')) {
    auto group = text.substr(0, comma);
    if (is_first && group.starts_with('-')) {
      digits += '-';
      group.remove_prefix(1);
    }
    const auto least = is_first ? 1 : least_group;
    if (digits_before(group) != group.size() || group.size() < least || group.size() > whole_group) {
      return std::nullopt;
    }
    digits += group;
    text.remove_prefix(comma + 1);
    is_first = false;
  }
  if (!is_first && digits_before(text) != whole_group) { return std::nullopt; }
  return parse_number(digits.append(text));
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) { return std::nullopt; }
  return value;
}

std::optional<std::uint64_t> parse_size_bytes(std::string_view text) {
  std::uint64_t unit_bytes = 1;
  for (const auto& [name, bytes] : size_units) {
    if (!text.ends_with(name)) { continue; }
    text.remove_suffix(name.size());
    unit_bytes = bytes;
    break;
  }
  const auto value = parse_integer(text);
  if (!value || text[0] == '-' || static_cast<std::uint64_t>(*value) > INT64_MAX / unit_bytes) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*value) * unit_bytes;
}

std::optional<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) { text.remove_suffix(1); }
  const auto value = parse_number(text);
  if (!value) { return std::nullopt; }
  return percent ? *value / 100.0 : *value;
}

std::optional<std::int64_t> parse_duration_ns(std::string_view text) {
  for (const auto& [name, nanoseconds] : duration_units) {
    if (!text.ends_with(name)) { continue; }
    const auto value = parse_number(text.substr(0, text.size() - name.size()));
    if (!value || *value < 0 || *value * static_cast<double>(nanoseconds) > 9.0e18) { return std::nullopt; }
    return std::llround(*value * static_cast<double>(nanoseconds));
  }
  return std::nullopt;
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) { return fmt::format("1 {}", one); }
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

std::string format_size(std::uint64_t bytes) {
  for (const auto& [name, unit_bytes] : size_units) {
    if (bytes < unit_bytes) { continue; }
    if (bytes % unit_bytes == 0) { return fmt::format("{}{}", bytes / unit_bytes, name); }
    return fmt::format("{:.2f}{}", static_cast<double>(bytes) / static_cast<double>(unit_bytes), name);
  }
  return "0B";
}

std::string format_duration(std::int64_t nanoseconds) {
  return format_seconds(static_cast<double>(nanoseconds) * 1e-9);
}

std::string format_seconds(double seconds) {
  constexpr double most = 1e18;  // still a whole number
  seconds = std::min(seconds, most);
  if (seconds < 1) { return fmt::format("{:.0f} ms", seconds * 1e3); }
  if (seconds < 60) { return fmt::format("{:.1f} s", seconds); }
  const auto whole = std::llround(seconds);
  if (whole < 3600) { return fmt::format("{} min {:02} s", whole / 60, whole % 60); }
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string figure_words(double value) {
  return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

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
