#include "harness/evidence/aggressor.h"

#include <algorithm>
#include <cmath>

namespace virtrain::harness {
namespace {

/// No record of one second says that much.
constexpr double longest_interval_seconds = 3600, most_busy = 100;

std::optional<double> progress_number(const nlohmann::json& record, const char* name, double most) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number()) { return std::nullopt; }
  const auto value = found->get<double>();
  return std::isfinite(value) && value >= 0 && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<AggressorProgress> read_progress(const nlohmann::json& record) {
  if (!record.is_object() || record.value("record", nlohmann::json()) != "progress") { return std::nullopt; }
  const auto t_ns = record.find("t_ns");
  const auto seconds = progress_number(record, "seconds", longest_interval_seconds);
  const auto busy = progress_number(record, "busy", most_busy);
  const auto rate = progress_number(record, "rate", 1e300);
  if (t_ns == record.end() || !t_ns->is_number_integer() || !seconds || *seconds <= 0 || !busy || !rate) {
    return std::nullopt;
  }
  return AggressorProgress{t_ns->get<std::int64_t>(), *seconds, *busy, *rate};
}

AggressorLevel level_between(const std::vector<AggressorProgress>& progress, std::int64_t begin_ns,
                             std::int64_t end_ns) {
  AggressorLevel level;
  double seconds = 0;
  for (const auto& one : progress) {
    const auto from = std::max(begin_ns, one.end_ns - static_cast<std::int64_t>(one.seconds * 1e9));
    const double shared = static_cast<double>(std::min(end_ns, one.end_ns) - from) * 1e-9;
    if (shared <= 0) { continue; }
    seconds += shared;
    level.busy += one.busy * shared;
    level.rate += one.rate * shared;
  }
  if (seconds <= 0 || end_ns <= begin_ns) { return level; }
  level.busy /= seconds;
  level.rate /= seconds;
  level.covered = std::min(1.0, seconds / (static_cast<double>(end_ns - begin_ns) * 1e-9));
  return level;
}

bool is_at_level(double busy, double level) {
  return std::abs(busy - level) <= most_level_distance * level;
}

}  // namespace virtrain::harness
