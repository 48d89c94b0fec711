#include "common/text/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain {
namespace {

constexpr std::int64_t most_cpus = 65536;

/// "0-3" or "8": the first and the last; nothing of other text.
std::optional<std::pair<std::int64_t, std::int64_t>> cpu_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_integer(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= most_cpus) { return std::nullopt; }
  return std::pair(*first, *last);
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw Error("read CPU list", ErrorCode::bad_input, fmt::format("'{}' {}", excerpt(text), why));
  };
  std::vector<int> cpus;
  std::vector<bool> is_in(static_cast<std::size_t>(most_cpus));
  Scanner in(trim(text));
  if (in.at_end()) { return cpus; }
  do {
    const auto range = cpu_range(in.take_while([](char c) { return c != ','; }));
    if (!range) { refuse("is not a CPU list such as 0-3,8"); }
    for (auto cpu = range->first; cpu <= range->second; ++cpu) {
      if (is_in[static_cast<std::size_t>(cpu)]) { refuse(fmt::format("names CPU {} twice", cpu)); }
      is_in[static_cast<std::size_t>(cpu)] = true;
      cpus.push_back(static_cast<int>(cpu));
    }
  } while (in.take(","));
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::vector<int> sorted = cpus;
  std::ranges::sort(sorted);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) { ++end; }
    parts.push_back(end - i == 1 ? fmt::format("{}", sorted[i])
                                 : fmt::format("{}-{}", sorted[i], sorted[end - 1]));
    i = end;
  }
  return join(parts, ",");
}

}  // namespace virtrain
