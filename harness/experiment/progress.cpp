#include "harness/experiment/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace virtrain::harness {
namespace {

/// "4:07", with hours where there are some.
std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto minutes = whole / 60;
  return minutes < 60 ? fmt::format("{}:{:02}", minutes, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, whole % 60);
}

/// "20 s", "4 min", "3.2 h": as exact as a guess is.
std::string about(double seconds) {
  constexpr double minute = 60, hour = 3600;
  if (seconds <= minute) { return fmt::format("{:.0f} s", std::ceil(seconds / 10) * 10); }
  if (seconds <= 2 * hour) { return fmt::format("{:.0f} min", std::ceil(seconds / minute)); }
  return fmt::format("{:.1f} h", seconds / hour);
}

}  // namespace

std::string progress_words(const Progress& progress, std::int64_t now_ns, std::size_t columns) {
  const auto since = [now_ns](std::int64_t then_ns) { return static_cast<double>(now_ns - then_ns) * 1e-9; };
  const double left = std::max(1.0, progress.seconds_left_then - since(progress.at_ns));
  const auto times = fmt::format(" ({}, about {} left)", clock_time(since(progress.began_ns)), about(left));
  auto words = progress.trial + ": " + progress.now;
  // A line that wraps cannot be written over. Times stay, they are what is waited for.
  const std::size_t room = columns > times.size() + 1 ? columns - times.size() - 1 : 0;
  if (words.size() > room) { words.resize(room); }
  return words + times.substr(0, columns > 0 ? columns - 1 : 0);
}

void RemainingTime::finished(const PlannedTrial& trial, double seconds) {
  for (auto* sum : {&all_, &by_arm_[trial.arm]}) {
    sum->taken += seconds;
    sum->estimated += trial.estimate_seconds;
  }
}

double RemainingTime::expected_seconds(const PlannedTrial& trial) const {
  const auto arm = by_arm_.find(trial.arm);
  return trial.estimate_seconds * (arm == by_arm_.end() ? all_ : arm->second).factor();
}

double RemainingTime::seconds_left(const PlannedTrial& present, double elapsed_seconds) const {
  double left = std::max(0.0, expected_seconds(present) - elapsed_seconds);
  for (const auto& trial : plan_.trials) {
    if (trial.order > present.order) { left += expected_seconds(trial); }
  }
  return left;
}

}  // namespace virtrain::harness
