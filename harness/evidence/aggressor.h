#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::harness {

/// One stressor's report on one interval, on the coordinator's clock.
struct AggressorProgress {
  std::int64_t end_ns = 0;
  double seconds = 0;
  double busy = 0;  ///< share of the interval in which it was at work, or waited for a core to work on
  double rate = 0;  ///< work a second
};

/// The record "progress" of virtrain-stress; nothing where it is none, or its numbers are made up.
std::optional<AggressorProgress> read_progress(const nlohmann::json& record);

/// Work of a stressor in an interval of time: means, weighted by time.
struct AggressorLevel {
  double busy = 0;
  double rate = 0;
  double covered = 0;  ///< share of the interval of which it said anything
};
AggressorLevel level_between(const std::vector<AggressorProgress>& progress, std::int64_t begin_ns,
                             std::int64_t end_ns);

/// So far from its level, as a share of it, an aggressor may be.
inline constexpr double most_level_distance = 0.10;
bool is_at_level(double busy, double level);

/// One stressor of a neighbour while the victims took their counted steps.
struct AggressorEvidence {
  std::string stressor;  ///< "h2d"
  double level = 1;      ///< that was asked for
  AggressorLevel reached = {};
  double rate_before = 0;  ///< at its level, while the victims waited
  std::string unit = {};
};

}  // namespace virtrain::harness
