#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace virtrain::results {

/// Speed of some steps of a log, and the line that says it.
struct StepSpeed {
  double speed = 0;
  std::int64_t line = 0;
};

/// Where a log's speed falls for good, or for a tenth of the log and more; or rises after a quarter of it.
struct SpeedFall {
  double before = 0, after = 0;
  std::int64_t line = 0;  ///< the first at the second level
};

/// The step between two levels of which no mean says anything. None for a slow start, single slow steps or
/// pauses at intervals, noise and drift. Pure.
std::optional<SpeedFall> find_fall(const std::vector<StepSpeed>& speeds);

}  // namespace virtrain::results
